package main

// ofOperators are mutations of the operators' calls.
var ofOperators = []mutation{{
	name: "break-of-another-token", promise: "P7",
	what: "Break removes the next entry when the token's entry is gone.",
	file: "coordinator/operator.go",
	old:  `		i := slices.IndexFunc(entries, func(e driver.Entry) bool { return e.Token == token })`,
	new: `		i := slices.IndexFunc(entries, func(e driver.Entry) bool { return e.Token >= token })
		if i >= 0 {
			token = entries[i].Token
		}`,
	caught: []test{{pkg: "internal/engine", name: "TestBreakRemovesExactlyTheGrantWithTheToken"}},
}, {
	name: "break-with-a-lost-reply", promise: "P8",
	what:   "A Break whose reply was lost reports that it has removed nothing.",
	file:   "coordinator/operator.go",
	old:    `		case i < 0 && uncertain:`,
	new:    `		case i < 0 && uncertain && false:`,
	caught: []test{{pkg: "internal/engine", name: "TestBreakWhoseAnswerIsLost"}},
}, {
	name: "zookeeper-remove-leaves-the-successor-node", promise: "P5",
	what:   "Remove leaves the successor node with which the next waiter waits.",
	file:   "coordinator/zookeeper/operator.go",
	old:    `successor: n.successor(),`,
	new:    ``,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestRemoveDeletesTheSuccessorNode"}},
}}
