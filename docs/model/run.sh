#!/usr/bin/env bash
# Checks the models with Spin: the models as built must hold, and each wrong variant must be refuted with the expected
# violation. Prints one line for each; exits with 1 if any deviates.
#
#	docs/model/run.sh           the default set
#	FULL=1 docs/model/run.sh    larger ones, too: minutes, and up to 8 GB
#	docs/model/run.sh NOLOOK    runs whose model or flags match
#
# It needs spin and gcc. MODEL_JOBS sets the number of concurrent runs (default 2).
set -euo pipefail
cd "$(dirname "$0")"

# For each run: its set, the model, the expected result, and the flags. The models as built are expected to give "holds";
# any other result is the name of a violation in the model, or "stuck": a contender waits for ever.
runs() {
	cat <<-'RUNS'
		default queue     holds                  -DEXPIRES=1 -DCANCELS=1
		default queue     holds                  -DEXPIRES=1 -DCANCELS=1 -DZK
		default queue     holds                  -DDROPS=1 -DCANCELS=1
		default queue     holds                  -DDROPS=1 -DCANCELS=1 -DZK
		default queue     holds                  -DDROPS=2 -DBREAKS=1
		default queue     holds                  -DDROPS=2 -DBREAKS=1 -DZK
		default queue     holds                  -DOPS=1 -DBREAKS=1
		default queue     holds                  -DOPS=1 -DCANCELS=1 -DZK
		default queue     holds                  -DSHARED -DDROPS=1
		full    queue     holds                  -DSHARED -DDROPS=1 -DCANCELS=1 -DZK
		default queue     holds                  -DTRY -DDROPS=1 -DCANCELS=1
		default queue     holds                  -DTRY -DDROPS=1 -DCANCELS=1 -DZK
		full    queue     holds                  -DRW -DCANCELS=1
		default queue     holds                  -DRW
		default queue     holds                  -DRW -DCANCELS=1 -DZK
		full    queue     holds                  -DRW -DDROPS=1 -DZK
		default queue     holds                  -DN=4
		default queue     holds                  -DN=4 -DEXPIRES=1 -DZK
		default queue     out_of_order           -DBELOW
		default queue     two_hold               -DBELOW -DEXCLUSION
		default queue     two_hold               -DNORECHECK -DCANCELS=1 -DEXCLUSION
		default queue     stuck                  -DNOLOOK
		default queue     stuck                  -DTRUSTSHOWN
		default queue     stuck                  -DTWOREQUESTS -DZK
		default queue     two_hold               -DSAMEKEY -DSHARED -DEXCLUSION
		default queue     two_hold               -DBYNAME -DOPS=1 -DEXCLUSION
		default queue     stuck                  -DNOFORGET -DCANCELS=1
		default queue     stuck                  -DNOEPOCH -DCANCELS=1
		default queue     second_entry           -DNOEPOCH -DDROPS=1
		default queue     stuck                  -DNOWAIT -DCANCELS=1 -DZK
		default queue     second_entry           -DNOWAIT -DDROPS=1 -DZK
		default queue     left_behind            -DNOWITHDRAW -DRW -DDROPS=1
		default queue     stuck                  -DNOABANDON -DCANCELS=1
		default queue     dead_wins              -DNOLASTLOOK -DEXPIRES=1
		default queue     two_hold               -DLATECLOCK -DEXPIRES=1 -DEXCLUSION
		default handover  holds                  -DEXPIRES=1 -DCANCELS=1
		default handover  holds                  -DCANCELS=1 -DZK
		default handover  holds                  -DDROPS=1 -DSWEEPS=1 -DBREAKS=1
		default handover  holds                  -DOPS=1 -DDROPS=1
		default handover  holds                  -DOPS=1 -DZK
		default handover  holds                  -DSHARED -DEXPIRES=1
		default handover  holds                  -DRW -DCANCELS=1
		default handover  holds                  -DRW -DREADERS=2 -DZK
		default handover  holds                  -DN=4 -DCANCELS=1
		default handover  holds                  -DN=4 -DREUSE=1 -DCANCELS=1
		default handover  holds                  -DN=4 -DREUSE=0 -DDROPS=1 -DCANCELS=1
		full    handover  holds                  -DN=4 -DREUSE=0 -DDROPS=1 -DCANCELS=1 -DMARKNEWER
		default handover  holds                  -DRW -DPASSDOWN
		default handover  two_hold               -DPASSANY -DCANCELS=1 -DEXCLUSION
		default handover  two_hold               -DPASSREADER -DN=4 -DRW -DREADERS=6 -DDROPS=1 -DEXCLUSION
		default handover  two_hold               -DNOSWAP -DN=4 -DEXCLUSION
		default handover  two_hold               -DNOEMPTY -DEXCLUSION
		default handover  stuck                  -DTAILBYNAME -DN=4 -DREUSE=1 -DCANCELS=1
		default handover  left_behind            -DTAILKEPT
		default handover  two_hold               -DMARKBYNAME -DN=4 -DREUSE=0 -DDROPS=1 -DCANCELS=1 -DEXCLUSION
		default handover  two_hold               -DQUEUEMARK -DN=4 -DREUSE=0 -DDROPS=1 -DCANCELS=1 -DEXCLUSION
		default handover  two_hold               -DTRUSTGONE -DCANCELS=1 -DEXCLUSION
		default handover  stuck                  -DNOLOOK
		default handover  removed_wins           -DNOOWNWATCH -DOPS=1
		default semaphore holds                  -DLIMIT=1 -DDROPS=1 -DCANCELS=1
		default semaphore holds                  -DLIMIT=2 -DA0=2 -DPARTS=1 -DCANCELS=1
		default semaphore holds                  -DLIMIT=2 -DA1=2 -DMOVES=1
		default semaphore holds                  -DLIMIT=2 -DA0=2 -DMOVES=1 -DZK
		default semaphore holds                  -DLIMIT=2 -DA1=2 -DN=4
		default semaphore overtaken              -DBELOW -DLIMIT=2
		default semaphore sleeps_though_it_fits  -DONEHOLDER -DLIMIT=2
		default semaphore sleeps_though_it_fits  -DNTHAHEAD -DLIMIT=2 -DN=4
		default semaphore overtaken              -DBARGING -DLIMIT=2 -DA1=2
		default semaphore sleeps_though_it_fits  -DNOMARK -DLIMIT=2 -DA0=2
		default semaphore sleeps_though_it_fits  -DNOSETTLE -DLIMIT=4 -DMOST=4 -DA0=2 -DA1=2 -DMOVES=1
		default semaphore sleeps_though_it_fits  -DMOVEDISLAST -DLIMIT=3 -DMOST=4 -DA0=2 -DA1=2 -DMOVES=1
		default semaphore sleeps_though_it_fits  -DLATEFIRST -DLIMIT=3 -DA0=2 -DA1=2 -DDROPS=1
		default semaphore old_limit              -DNOCONDITION -DLIMIT=2 -DMOST=2 -DMOVES=1
		default semaphore sleeps_though_it_fits  -DNORECORD -DLIMIT=2 -DA0=2 -DMOVES=1
		default semaphore old_limit              -DNOCONFIRM -DLIMIT=2 -DA0=2 -DA1=2 -DMOVES=1
		default semaphore old_limit              -DTRUSTRECORD -DLIMIT=3 -DA0=2 -DA1=2 -DMOVES=1
		default semaphore old_limit              -DFIRSTVIEW -DLIMIT=2 -DA0=2 -DMOVES=1
		default semaphore old_limit              -DCONFIRMEDONCE -DLIMIT=3 -DMOST=4 -DA1=2 -DMOVES=2
		full    semaphore over_limit             -DNOVERSION -DLIMIT=1 -DMOVES=2
		default semaphore over_limit             -DNOBEHIND -DLIMIT=3 -DA0=3 -DMOVES=1 -DPARTS=2
		default deadline  holds
		default deadline  given_away_too_soon    -DRECEIVED
		default deadline  given_away_too_soon    -DNOMARGIN
		default deadline  holds                  -DZK -DDEATHS=2
		default deadline  holds                  -DZK -DDEATHS=1 -DSTALLS=1
		default deadline  holds                  -DZK -DLOSSES=2 -DSTALLS=3 -DSLOW
		default deadline  given_away_too_soon    -DZK -DDEATHS=1 -DRECEIVED
		default deadline  given_away_too_soon    -DZK -DDEATHS=1 -DNOMARGIN
		default deadline  given_away_too_soon    -DZK -DDEATHS=1 -DNOSLACK
		default deadline  given_away_too_soon    -DZK -DDEATHS=1 -DLOSSES=1
		default deadline  given_away_too_soon    -DZK -DDEATHS=1 -DSLOW
		default deadline  given_away_too_soon    -DZK -DDEATHS=1 -DSTALLS=2
		default deadline  given_away_too_soon    -DZK -DDEATHS=1 -DTWOTICKS
		default deadline  holds                  -DZK -DDEATHS=2 -DHALFTICK=5
		default deadline  holds                  -DZK -DDEATHS=2 -DHALFTICK=1
		default deadline  given_away_too_soon    -DZK -DDEATHS=1 -DHALFTICK=1 -DSTALLS=1
		default deadline  given_away_too_soon    -DZK -DDEATHS=1 -DHALFTICK=1 -DNOSLACK
		default deadline  given_away_too_soon    -DZK -DDEATHS=1 -DHALFTICK=1 -DSHORTSLACK
		full    queue     holds                  -DEXPIRES=1 -DDROPS=1 -DCANCELS=1
		full    queue     holds                  -DEXPIRES=1 -DDROPS=1 -DCANCELS=1 -DZK
		full    queue     holds                  -DOPS=1 -DDROPS=1 -DCANCELS=1
		full    queue     holds                  -DSHARED -DDROPS=1 -DCANCELS=1
		full    queue     holds                  -DSHARED -DEXPIRES=1 -DDROPS=1
		full    queue     holds                  -DRW -DEXPIRES=1
		full    queue     holds                  -DRW -DDROPS=1
		full    queue     holds                  -DRW -DEXPIRES=1 -DCANCELS=1 -DZK
		full    queue     holds                  -DN=4 -DEXPIRES=1
		full    queue     holds                  -DN=4 -DEXPIRES=1 -DCANCELS=1 -DZK
		full    handover  holds                  -DEXPIRES=1 -DCANCELS=1 -DZK
		full    handover  holds                  -DRW -DEXPIRES=1
		full    handover  holds                  -DRW -DOPS=1
		full    handover  holds                  -DN=4 -DRW
		full    handover  holds                  -DN=4 -DRW -DREADERS=2 -DDROPS=1
		full    handover  holds                  -DN=4 -DZK
		full    handover  holds                  -DN=4 -DOPS=1
		full    handover  holds                  -DN=4 -DEXPIRES=1 -DSWEEPS=1
		full    handover  holds                  -DN=4 -DSHARED -DEXPIRES=1 -DDROPS=1
		full    semaphore holds                  -DLIMIT=2 -DA0=2 -DPARTS=1 -DDROPS=1 -DCANCELS=1
		full    semaphore holds                  -DLIMIT=3 -DA0=2 -DA1=2 -DMOST=4 -DMOVES=1 -DPARTS=1
		full    semaphore holds                  -DLIMIT=2 -DA0=1 -DA1=2 -DMOVES=1 -DCANCELS=1 -DZK
		full    semaphore holds                  -DLIMIT=1 -DMOVES=2 -DMOST=2
		full    semaphore holds                  -DLIMIT=3 -DMOST=4 -DA1=2 -DMOVES=2
	RUNS
}

# check runs a model and prints its line. For a small model an optimizing compiler takes longer than it saves.
check() {
	local set=$1 model=$2 expected=$3
	shift 3
	local here=$PWD work contenders=3 verdict memory=1800 optimize=-O0
	work=$(mktemp -d)
	# shellcheck disable=SC2064 # expand now
	trap "rm -rf '$work'" EXIT
	[[ $set == full ]] && memory=7500 optimize=-O2
	[[ " $* " == *" -DN=4 "* ]] && contenders=4
	[[ $model == deadline ]] && contenders=-
	cd "$work"
	if ! { spin -a "$@" "$here/$model.pml" >log && gcc "$optimize" -w -DSAFETY -DNOFAIR -DMEMLIM=$memory -o pan pan.c 2>>log && ./pan -m1000000 -w20 >out; }; then
		verdict="failed to run"
	fi
	verdict=${verdict:-$(verdict out)}
	# Processor time, which depends little on the machine's load.
	times >spent
	local seconds ok=ok
	seconds=$(awk 'NR == 2 {split($1, t, /[ms]/); printf "%.1f", t[1] * 60 + t[2]}' spent)
	if [[ $verdict != "$expected" ]]; then
		ok=DEVIATES
		cat log out >&2 2>/dev/null || true
	fi
	printf '%-9s %-54s %10s %9s %7s  %-21s %-21s %s\n' "$model" "$*" "$contenders" \
		"$(awk '/states, stored/ {print $1; exit}' out 2>/dev/null)" "$seconds" "$verdict" "$expected" "$ok"
	[[ $ok == ok ]]
}

# verdict reads Spin's result.
verdict() {
	if grep -q 'invalid end state (at' "$1"; then
		echo stuck
	elif grep -q 'assertion violated' "$1"; then
		sed -n 's/.*assertion violated *!(*\([a-z_]*\).*/\1/p' "$1" | head -1
	elif grep -q 'errors: 0' "$1" && ! grep -qE 'search was not completed|out of memory|max search depth too small' "$1"; then
		echo holds
	else
		echo incomplete
	fi
}

if [[ ${1:-} == check ]]; then
	shift
	check "$@"
	exit
fi

for tool in spin gcc; do
	command -v "$tool" >/dev/null || { echo "the models need $tool: apt-get install -y spin gcc" >&2; exit 1; }
done

started=$SECONDS
if ! runs | grep -qe "${1:-.}"; then
	echo "no run matches $1" >&2
	exit 2
fi
printf '%-9s %-54s %10s %9s %7s  %-21s %-21s\n' model variant contenders states seconds verdict expected
status=0
runs | { [[ -n ${FULL:-} ]] && cat || grep '^default'; } | { grep -e "${1:-.}" || true; } |
	xargs -r -P "${MODEL_JOBS:-2}" -L 1 ./run.sh check || status=1
echo "$((SECONDS - started)) s"
if [[ $status -ne 0 ]]; then
	echo "a model deviates from its expected result" >&2
fi
exit $status
