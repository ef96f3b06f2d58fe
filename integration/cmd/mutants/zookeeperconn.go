package main

// ofZooKeeperSessions are mutations of the connection, the watches and the end
// of a session of ZooKeeper.
var ofZooKeeperSessions = []mutation{{
	name: "zookeeper-read-older-than-an-event", promise: "P1",
	what:   "After a reconnect a read may be older than what a watch has shown.",
	file:   "coordinator/zookeeper/internal/zkconn/request.go",
	old:    `		if c.synced.Load() != connection {`,
	new:    `		if false {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestHeadThatChangesWhileThereIsNoConnection"}},
}, {
	name: "zookeeper-read-over-two-connections", promise: "P1",
	what:   "A read over a later connection than the synced one counts.",
	file:   "coordinator/zookeeper/internal/zkconn/request.go",
	old:    `err != nil || c.connected() == connection {`,
	new:    `err != nil || true {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestViewIsOfAConnectionThatWasSynced"}},
}, {
	name: "zookeeper-expired-session-goes-on", promise: "P2",
	what:   "A session that a server does not know any more goes on, and tries others.",
	file:   "coordinator/zookeeper/internal/zkconn/link.go",
	old:    `	case known.session != 0 && h.session == 0:`,
	new:    `	case false:`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestExpiredSessionIsNeverReplaced"}},
}, {
	name: "zookeeper-any-timeout", promise: "P2",
	what:   "A session goes on with a shorter timeout than its deadline counts.",
	file:   "coordinator/zookeeper/internal/zkconn/link.go",
	old:    `	case h.timeout != known.timeout:`,
	new:    `	case false:`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestReconnectGrantedAShorterTimeoutEndsTheSession"}},
}, {
	name: "zookeeper-shortened-session-goes-on", promise: "P2",
	what:   "A session that a server has shortened goes on at another one.",
	file:   "coordinator/zookeeper/internal/zkconn/link.go",
	old:    `		case h.timeout < known.timeout:`,
	new:    `		case false:`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestUserIsToldThatAServerHasShortenedTheSession"}},
}, {
	name: "zookeeper-refused-timeout-is-tried-everywhere", promise: "P4",
	what: "A new session whose timeout is refused tries each server, and leaves a session at each.",
	file: "coordinator/zookeeper/internal/zkconn/link.go",
	old: `		case known.session == 0:
			c.finish`,
	new: `		case false:
			c.finish`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestOpenRefusesAnotherTimeoutAndEndsThatSession"}},
}, {
	name: "zookeeper-view-is-behind-an-event", promise: "P5",
	what:   "A view of a watched queue shows an entry that Watch has said to be gone.",
	file:   "coordinator/zookeeper/internal/zkconn/request.go",
	old:    `	} else if w != nil && !w.behind.Load() {`,
	new:    `	} else if w != nil {`,
	caught: []test{{pkg: "integration/internal/virtualzk", name: "TestViewAfterAWatchLacksWhatHasLeft"}},
}, {
	name: "zookeeper-session-of-no-caller-stays", promise: "P4",
	what: "An opening that is given up does not wait for the session's name, with which it is ended.",
	file: "coordinator/zookeeper/internal/zkconn/conn.go",
	old: `		if ctx.Err() != nil && s.asked() {
			c.late`,
	new: `		if false {
			c.late`,
	caught: []test{{pkg: "integration/internal/virtualzk", name: "TestSessionThatNoCallerWaitsForIsEnded"}},
}, {
	name: "zookeeper-closed-driver-leaves-an-opening", promise: "P4",
	what:   "A closed driver leaves an opening that goes on without its caller.",
	file:   "coordinator/zookeeper/internal/zkconn/conn.go",
	old:    `	return c.late.wait(ctx)`,
	new:    `	return nil`,
	caught: []test{{pkg: "integration/internal/virtualzk", name: "TestOpeningThatIsGivenUpGoesOnForAMoment"}},
}, {
	name: "zookeeper-denial-of-one-server", promise: "P4",
	what:   "Close believes the first server that says that the session is over.",
	file:   "coordinator/zookeeper/internal/zkconn/link.go",
	old:    `		case errors.Is(err, driver.ErrRefused), err == nil && answer.session != 0:`,
	new:    `		case errors.Is(err, driver.ErrRefused), err == nil && answer.session != -1:`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestNoSingleServerIsBelievedThatASessionIsOver"}},
}, {
	name: "zookeeper-unconfirmed-end-is-one", promise: "P4",
	what:   "After one server's denial, Close succeeds although another one knows the session and has not confirmed its end.",
	file:   "coordinator/zookeeper/internal/zkconn/link.go",
	old:    `		case o.known && !errors.Is(err, driver.ErrRefused):`,
	new:    `		case false:`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestNoSingleServerIsBelievedThatASessionIsOver"}},
}, {
	name: "zookeeper-reconnect-by-one-server", promise: "P2",
	what:   "The first renewal over a new connection is confirmed by one server alone.",
	file:   "coordinator/zookeeper/internal/zkconn/link.go",
	old:    `	if c.hello.session != 0 { // else`,
	new:    `	if false { // else`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestRenewalIsAWriteWhenTheServerMayHaveBeenPaused"}},
}, {
	name: "zookeeper-sync-by-one-server", promise: "P4",
	what:   "A sync over a new connection rests on the word of one server.",
	file:   "coordinator/zookeeper/internal/zkconn/wire.go",
	old:    `	return !s.again || s.confirmed > 0`,
	new:    `	return true`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestSyncOverANewConnectionIsConfirmedByAMajority"}},
}, {
	name: "zookeeper-late-replies-by-one-server", promise: "P2",
	what:   "A renewal after a pause of the leader is confirmed by the leader alone.",
	file:   "coordinator/zookeeper/internal/zkconn/request.go",
	old:    `	if ttl := c.TTL(); c.conf.Tick > 0 && ttl >= 10*c.conf.Tick {`,
	new:    `	if ttl := c.TTL(); false && ttl > 0 {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestRenewalIsAWriteWhenTheServerMayHaveBeenPaused"}},
}, {
	name: "zookeeper-late-confirmation-confirms", promise: "P2",
	what:   "A confirmation whose own reply is late counts.",
	file:   "coordinator/zookeeper/internal/zkconn/request.go",
	old:    `	on.confirm(doubts) // not of`,
	new:    `	on.confirm(doubts+1) // not of`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestRenewalIsAWriteWhenTheServerMayHaveBeenPaused"}},
}, {
	name: "zookeeper-silent-server-is-kept", promise: "P2",
	what:   "A server that answers pings and nothing else is not left.",
	file:   "coordinator/zookeeper/internal/zkconn/wire.go",
	old:    `		_ = s.Conn.SetReadDeadline(now.Add(patience))`,
	new:    `		_, _ = now, patience`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestPingsDoNotHideAServerThatAnswersNothingElse"}},
}, {
	name: "zookeeper-client-decides-on-silence", promise: "P2",
	what:   "The client's own deadline, of two thirds of the TTL, replaces that of unanswered requests.",
	file:   "coordinator/zookeeper/internal/zkconn/wire.go",
	old:    `	if !s.handshakeDone || s.unanswered > 0 {`,
	new:    `	if !s.handshakeDone || false {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestPingsDoNotHideAServerThatAnswersNothingElse"}},
}, {
	name: "zookeeper-pings-are-answers", promise: "P2",
	what: "A reply to a ping counts as the answer to a request.",
	file: "coordinator/zookeeper/internal/zkconn/wire.go",
	old: `		if isRequest(s.message) {
			s.addUnanswered(-1)`,
	new: `		if true {
			s.addUnanswered(-1)`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestPingsDoNotHideAServerThatAnswersNothingElse"}},
}, {
	name: "zookeeper-watches-outlive-the-connection", promise: "P5",
	what: "Watches of a lost connection do not fire.",
	file: "coordinator/zookeeper/internal/zkconn/conn.go",
	old: `		c.up = make(chan struct{})
		return c.watches.fireAll()`,
	new: `		c.up = make(chan struct{})
		return nil`,
	caught: []test{{pkg: "coordinator/zookeeper/internal/zkconn", name: "TestLostConnectionMakesEveryWatchFire"}},
}, {
	name: "zookeeper-event-of-an-earlier-watch", promise: "P1",
	what: "A watch that is being set takes the event of an earlier one on the node.",
	file: "coordinator/zookeeper/internal/zkconn/watch.go",
	old: `			select {
			case <-old.ready:
				old.event = e
			default:
			}
			close(old.fired)`,
	new: `			old.event = e
			close(old.fired)`,
	caught: []test{{pkg: "coordinator/zookeeper/internal/zkconn", name: "TestEventOfAnEarlierWatchShowsNothing"}},
}, {
	name: "zookeeper-fired-watch-is-reused", promise: "P5",
	what: "A watch that has fired while it was set is used again.",
	file: "coordinator/zookeeper/internal/zkconn/watch.go",
	old: `		select {
		case <-w.fired:
			continue
		default:
		}
`,
	new:    ``,
	caught: []test{{pkg: "coordinator/zookeeper/internal/zkconn", name: "TestWatchThatFiredWhileItWasSetIsNotUsedAgain"}},
}, {
	name: "zookeeper-lost-connection-ends-a-wait", promise: "P8",
	what: "A wait fails when its connection is lost.",
	file: "coordinator/zookeeper/internal/zkconn/watch.go",
	old: `		case errors.Is(err, zk.ErrConnectionClosed):
			event`,
	new: `		case false:
			event`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestUnansweredRequestMovesTheSession"}},
}, {
	name: "zookeeper-moved-connection-is-kept", promise: "P2",
	what: "A connection that has lost the session to another one is kept.",
	file: "coordinator/zookeeper/internal/zkconn/conn.go",
	old: `		c.closeSocket()
	}
	return err`,
	new: `		
	}
	return err`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestMovedSessionIsTakenBack"}},
}, {
	name: "zookeeper-expired-reply-is-an-error", promise: "P2",
	what: "A session goes on although a reply has said that it is over.",
	file: "coordinator/zookeeper/internal/zkconn/conn.go",
	old: `	case errors.Is(err, driver.ErrSessionLost):
		c.finish`,
	new: `	case false:
		c.finish`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestReplyThatTheSessionIsOverEndsIt"}},
}, {
	name: "zookeeper-requests-queue-in-the-client", promise: "P8",
	what: "Requests without a connection are handed to the client.",
	file: "coordinator/zookeeper/internal/zkconn/request.go",
	old: `	if err := c.awaitConnection(ctx); err != nil {
		return err
	}
	select {
	case c.slots`,
	new: `	select {
	case c.slots`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestRequestOfACallThatHasEndedIsNotSentLater"}},
}, {
	name: "zookeeper-renewals-wait-for-a-connection", promise: "P2",
	what: "Renewals without a connection wait for it, and are all sent together.",
	file: "coordinator/zookeeper/internal/zkconn/request.go",
	old: `	select {
	case <-c.connected():
	default:
		return cmp.Or(c.Err(), driver.Wrap(driver.ErrUnavailable, c.lastError()))
	}
	come`,
	new: `	if err := c.awaitConnection(ctx); err != nil {
		return cmp.Or(c.Err(), driver.Wrap(driver.ErrUnavailable, err))
	}
	come`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestRenewalDoesNotWaitForAConnection"}},
}, {
	name: "zookeeper-long-outage-is-dialled-often", promise: "P6",
	what:   "Clients dial as often in a long outage as in a short one.",
	file:   "coordinator/zookeeper/internal/zkconn/hosts.go",
	old:    `if lasts := r.outage.lasts(r.began); !time.Now().Before(r.quick) {`,
	new:    `if lasts := r.outage.lasts(r.began); false && lasts > 0 {`,
	caught: []test{{pkg: "coordinator/zookeeper/internal/zkconn", name: "TestPausesAreShortWhileTheSessionCanBeSaved"}},
}, {
	name: "zookeeper-session-is-given-up-early", promise: "P2",
	what:   "Pauses grow while a session can still be saved.",
	file:   "coordinator/zookeeper/internal/zkconn/hosts.go",
	old:    `if lasts := r.outage.lasts(r.began); !time.Now().Before(r.quick) {`,
	new:    `if lasts := r.outage.lasts(r.began); true {`,
	caught: []test{{pkg: "coordinator/zookeeper/internal/zkconn", name: "TestPausesAreShortWhileTheSessionCanBeSaved"}},
}, {
	name: "zookeeper-last-server-first", promise: "P5",
	what:   "A reconnect may begin with the server that was lost.",
	file:   "coordinator/zookeeper/internal/zkconn/hosts.go",
	old:    `		if t.addr == r.last {`,
	new:    `		if false {`,
	caught: []test{{pkg: "coordinator/zookeeper/internal/zkconn", name: "TestReconnectResolvesAgain"}},
}, {
	name: "zookeeper-end-of-an-expired-session-fails", promise: "P4",
	what:   "The close of a session that has expired fails.",
	file:   "coordinator/zookeeper/internal/zkconn/wire.go",
	old:    `switch failed := code != 0 && code != codeExpired; {`,
	new:    `switch failed := code != 0; {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestCloseOfASessionThatHasExpiredSucceeds"}},
}, {
	name: "zookeeper-confirmed-end-is-sent-again", promise: "P6",
	what:   "Close connects to a service that has confirmed the end of the session.",
	file:   "coordinator/zookeeper/internal/zkconn/conn.go",
	old:    `	if session.session == 0 || c.ended.Load() {`,
	new:    `	if session.session == 0 || false {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestConfirmedEndIsNotSentAgain"}},
}, {
	name: "zookeeper-creation-not-awaited", promise: "P5",
	what: "A wait for a node that was created meanwhile waits for its next change.",
	file: "coordinator/zookeeper/internal/zkconn/watch.go",
	old: `		if err != nil || !w.Seen.Exists {
			return w, err`,
	new: `		if err != nil || true {
			return w, err`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestRecordMadeBetweenTwoRequestsIsRead"}},
}, {
	name: "zookeeper-leader-without-a-majority", promise: "P2",
	what:   "A session without the right to read the root cannot confirm a renewal.",
	file:   "coordinator/zookeeper/internal/zkconn/request.go",
	old:    `	if err != nil && !errors.Is(err, zk.ErrNoAuth) {`,
	new:    `	if err != nil && true {`,
	caught: []test{{pkg: "coordinator/zookeeper", name: "TestRenewalIsAWriteWhenTheServerMayHaveBeenPaused"}},
}}
