package main

// ofOperators are mutations of what operators call.
var ofOperators = []mutation{{
	name: "break-whoever-holds", promise: "P7",
	what: "Break removes the next in the queue when the token has moved on.",
	file: "coordinator/operator.go",
	old:  `		i := slices.IndexFunc(entries, func(e driver.Entry) bool { return e.Token == token })`,
	new: `		i := slices.IndexFunc(entries, func(e driver.Entry) bool { return e.Token >= token })
		if i >= 0 {
			token = entries[i].Token
		}`,
	caught: []test{{pkg: "internal/engine", name: "TestBreakRemovesExactlyTheGrantWithTheToken"}},
}, {
	name: "break-denies-its-work", promise: "P8",
	what:   "Break whose answer was lost says that it has removed nothing.",
	file:   "coordinator/operator.go",
	old:    `		case i < 0 && uncertain:`,
	new:    `		case i < 0 && uncertain && false:`,
	caught: []test{{pkg: "internal/engine", name: "TestBreakWhoseAnswerIsLost"}},
}, {
	name: "zookeeper-remove-leaves-the-successor-node", promise: "P5",
	what:   "Remove lets the successor node stand that the next in the queue waits with.",
	file:   "coordinator/zookeeper/operator.go",
	old:    `s.remove(ctx, queue, n, n.successor(), false)`,
	new:    `s.remove(ctx, queue, n, "", false)`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestRemoveDeletesTheSuccessorNode"}},
}}
