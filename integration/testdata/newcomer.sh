#!/bin/sh
# A newcomer's first steps with baton, in several concurrent processes. BATON is the program, BATON_URL the service.
# Each step checks its result; the first failure ends the script.
set -eu
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT

exec 3>&2 # for fail: code runs with a redirected standard error
step() { printf '%s\n' "- $*"; }
fail() {
	printf 'FAILED: %s\n' "$*" >&3
	exit 1
}

# code N COMMAND… fails unless the command exits with N.
code() {
	want=$1
	shift
	got=0
	"$@" || got=$?
	[ "$got" = "$want" ] || fail "$* exited with $got, want $want"
}

# file F waits until a file exists.
file() {
	tries=0
	until [ -e "$1" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 600 ] || fail "$1 does not exist after 30 seconds"
		sleep 0.05
	done
}

step "version and help"
"$BATON" --version | grep -q '^baton ' || fail "no version"
"$BATON" --help | grep -q 'make serve' || fail "help does not say how to get a service"
code 2 "$BATON" lock
code 2 "$BATON" no-such-command
"$BATON" completion bash | grep -q baton || fail "no completion"

step "lock: one at a time"
for i in 1 2 3 4; do
	"$BATON" lock counter -- sh -c 'n=$(cat n 2>/dev/null || echo 0); sleep 0.1; echo $((n + 1)) >n' &
done
wait
[ "$(cat n)" = 4 ] || fail "four processes counted to $(cat n)"

step "lock: the error names the holder, and baton exits with the command's exit code"
"$BATON" lock --identity alice report -- sh -c 'env >env; : >held; while [ ! -e done ]; do sleep 0.05; done; exit 9' &
alice=$!
file held
code 1 "$BATON" lock -n report -- true 2>message
grep -q 'taken by alice, in the queue since' message || fail "the message does not name alice: $(cat message)"
code 75 "$BATON" lock -w 2 -E 75 report -- true 2>message
"$BATON" list | grep -q 'report.*alice' || fail "alice is not in the list: $("$BATON" list)"
"$BATON" inspect report | grep -q alice || fail "inspect does not show alice: $("$BATON" inspect report)"
for v in BATON_TOKEN BATON_SEQUENCER BATON_SESSION BATON_DEADLINE; do
	grep -q "^$v=." env || fail "$v is not in the environment"
done
grep -qx BATON_NAME=report env || fail "BATON_NAME is not report"
grep -qx BATON_KIND=mutex env || fail "BATON_KIND is not mutex"
sequencer=$(sed -n 's/^BATON_SEQUENCER=//p' env)
code 0 "$BATON" check "$sequencer"
: >done
code 9 wait "$alice"
code 1 "$BATON" check "$sequencer"

step "break: the command of a broken grant is ended"
"$BATON" lock --identity bob broken -- sh -c 'echo "$BATON_TOKEN" >token; : >bobs; exec sleep 600' 2>told &
bob=$!
file bobs
code 3 "$BATON" break broken --token 1 2>message
code 0 "$BATON" break broken --token "$(cat token)"
code 124 wait "$bob"
grep -q 'others may hold the name already' told || fail "bob's baton did not report the loss: $(cat told)"
code 0 "$BATON" lock -n broken -- true

step "rlock, wlock: many readers or one writer"
"$BATON" rlock catalogue -- sh -c ': >reading; while [ ! -e read ]; do sleep 0.05; done' &
reader=$!
file reading
code 0 "$BATON" rlock -n catalogue -- true
code 1 "$BATON" wlock -n catalogue -- true 2>message
: >read
code 0 wait "$reader"
code 0 "$BATON" wlock -n catalogue -- true

step "sem: two at a time, with slot numbers"
for i in 0 1; do
	"$BATON" sem --limit 2 --slots gpu -- sh -c ': >"slot$BATON_SLOTS"; while [ ! -e free ]; do sleep 0.05; done' &
done
file slot0
file slot1
code 1 "$BATON" sem --nonblock --limit 2 gpu -- true 2>message
code 2 "$BATON" sem --limit 3 gpu -- true 2>message
grep -q 'is 2, not 3' message || fail "the message does not have the stored limit: $(cat message)"
: >free
wait
code 0 "$BATON" sem --permits 2 gpu -- true

step "elect: one leader, known to all, and a successor"
code 1 "$BATON" leader scheduler 2>message
for who in a b; do
	"$BATON" elect --value "$who:80" scheduler -- sh -c "echo $who >>leaders; exec sleep 600" &
	eval "$who=$!"
done
file leaders
first=$(cat leaders)
"$BATON" leader scheduler | grep -q "^$first:80 (" || fail "leader prints $("$BATON" leader scheduler), not $first"
eval "kill \$$first"
eval "code 143 wait \$$first"
other=b
[ "$first" = a ] || other=a
tries=0
until grep -q "$other" leaders; do
	tries=$((tries + 1))
	[ "$tries" -lt 600 ] || fail "$other does not lead after 30 seconds"
	sleep 0.05
done
"$BATON" leader -o json scheduler | grep -q "\"value\":\"$other:80\"" || fail "leader does not print $other"
eval "kill \$$other"
eval "code 143 wait \$$other"

step "done"
