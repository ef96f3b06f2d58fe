package coordinatortest

import "slices"

// untestable are the clauses that have no case, with reasons.
var untestable = map[string]string{
	"J4": "it allows and promises nothing; what must hold after such an error is checked by J2 and F1",
	"C3": "needs a connection or lease that was made outside the driver; a driver's own tests check it",
}

// cases are all cases, in the order in which they run.
var cases = slices.Concat(
	sessionCases, joinCases, viewCases, contestCases,
	deedCases(), forgetCases, closeCases,
	waitCases(), watchCases, changedCases(),
	needing(convertCases, Converter), needing(writeCases, Writer), lateCases(),
	nearestCases, needing(handoffCases, Handoff), needing(passedOnCases(), Handoff),
	needing(queueCases, QueueWatcher), headCases, recordCases, stateCases(),
	needing(operatorCases, Operator), needing(checkCases(), Operator),
)

// needing adds levers to what all of the cases need.
func needing(all []testCase, levers ...Lever) []testCase {
	for i := range all {
		all[i].needs = slices.Concat(all[i].needs, levers)
	}
	return all
}
