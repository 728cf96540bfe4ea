# D3, D4, D15: every call on files that a tool makes under its store and its output goes wrong once, in every way there is: it fails, it is
# short, it is interrupted, the process is killed there, asked to end there, or the power fails there. Whatever happens, what is in the
# store is right, what comes out is what a run without a store gives, and the exit status and the message tell.
# All calls with AKV_LONG=1, as in `make fault`; else some of them.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/fault/rig.sh"
every=${AKV_LONG:+1}
every=${every:-${AKV_FAST:+67}}
every=${every:-29}

# Where a case starts: an empty place; a store with the chain and a pin, and an old output.
mkdir -p none full
cp b.akv none/out
akv-pin -q -s full/store kept <a.akv && akv-pin -q -s full/store other <b.akv && cp b.akv full/out || exit 1

cp -r full loose
akv-pin -q -s loose/store --remove other && echo left by a dead process >loose/store/tmp/1.1 || exit 1
cp -r full tight
akv-pin -q -s tight/store --remove other && akv-pin -q -s tight/store --remove kept && akv-pin -q -s tight/store --gc --force >/dev/null || exit 1
akv-prefill -q -s tight/store --save -o /dev/null a.tok && akv-pin -q -s tight/store --quota 80000 >/dev/null || exit 1

# run SPEC STATE COMMAND: from that state, with a.akv as standard input; the exit status in $status.
run() {
    rm -rf w w.lost
    cp -a "$2" w
    faulty "$1" bash -c "exec $3" <a.akv >stdout 2>stderr
    status=$?
}

# What must hold when the command has ended with status 0: one function a command.
saved() {
    [ "$found" -ge "$n_cached" ] || t_fail "$what: exit status 0, but $found tokens were saved"
}
pinned() {
    saved
    akv-pin -s w/store --export name 2>&1 | cmp -s - pages.akv || t_fail "$what: exit status 0, but the pin is not right"
}
renamed() {
    akv-pin -s w/store --export new 2>&1 | cmp -s - pages.akv || t_fail "$what: exit status 0, but the new name is not there"
}
removed() {
    [ "$(akv-pin -s w/store --list | wc -l)" = 1 ] || t_fail "$what: exit status 0, but the pin is there"
}
collected() {
    local n_left
    n_left=$(find w/store/objects -type f | wc -l)
    # what cannot be read stays
    [ "$n_left" = 3 ] || [[ $how == E* && $n_left -gt 3 ]] || t_fail "$what: exit status 0, but $n_left objects are left"
    [ -z "$(temps)" ] || t_fail "$what: exit status 0, but temporary files are left"
}
evicted() {
    [[ $how != POWER && $how != ZERO ]] || return 0 # objects came back that were counted out; that is found out within the hour
    [ "$(find w/store/objects -type f -exec stat -c %s {} + | awk '{ n += $1 } END { print n }')" -le 80000 ] ||
        t_fail "$what: exit status 0, but the store is over its quota"
}
nothing() {
    :
}

# same_output: it is complete. For akv-restore: its pages, some of which may be missing, lead to all of them.
same_output() {
    case "$output $command" in
    any*) ;;
    out\ akv-restore*) akv-prefill w/out 2>/dev/null | cmp -s - a.akv ;;
    out*) cmp -s w/out "$wanted" ;;
    *) cmp -s stdout "$wanted" ;;
    esac
}

# right_output: it is complete, or as it was before. A run that only saves to the store, and fails to, completes it nevertheless.
right_output() {
    same_output && return
    [ "$status" = 0 ] && t_fail "$what: exit status 0, but the output is not right"
    [ "$output" = stdout ] && [ -s stdout ] && t_fail "$what: a part of the output"
    [ "$output" = out ] && ! cmp -s w/out b.akv && t_fail "$what: the output is neither the old nor the new"
    [[ $command != *--save* || $path != */w/store/* || $n == *+ ]] || t_fail "$what: nothing comes out when saving fails"
}

left_temps() {
    case "$how $kind $state" in
    KILL* | POWER* | ZERO* | "EIO unlink"* | *loose) ;;
    *) [ -z "$(temps)" ] || t_fail "$what: left $(temps | head -n 1)" ;;
    esac
}

# one N KIND PATH HOW: one call goes wrong.
one() {
    local n=$1 kind=$2 path=$3 how=$4
    what="$how at call $n of ${state}: $command ($kind ${path#"$T"/})"
    run "$n $how" "$state" "$command"
    case $how in
    SHORT | EINTR) [ "$status$(cat stderr)" = 0 ] || t_fail "$what: exit status $status: $(head -n 1 stderr)" ;;
    EIO | ENOSPC)
        case $status in
        0) [ ! -s stderr ] || t_fail "$what: exit status 0, but $(head -n 1 stderr)" ;;
        5)
            # an object whose header cannot be read is not evicted, so that there may be no room
            grep -qE "^${command%% *}: .*(: (Input/output error|No space left on device)|: no room .*, what cannot be read [0-9]+, .*)$" stderr ||
                t_fail "$what: exit status 5, but it says $(head -n 1 stderr)"
            [[ $n == *+ ]] || t_is "$(wc -l <stderr)" 1 "$what: lines on stderr"
            ;;
        *) t_fail "$what: exit status $status: $(head -n 1 stderr)" ;;
        esac
        ;;
    INT) [ $status = 130 ] || t_fail "$what: exit status $status: $(head -n 1 stderr)" ;;
    TERM) [ $status = 143 ] || t_fail "$what: exit status $status: $(head -n 1 stderr)" ;;
    *) [ $status = 137 ] || t_fail "$what: exit status $status: $(head -n 1 stderr)" ;;
    esac
    [ "$status" -gt 5 ] || right_output
    left_temps
    check_store
    [ $status != 0 ] || "$then"
    [ $status -le 5 ] || { # what a dead process left does not stand in the way
        bash -c "$command" <a.akv >stdout 2>stderr
        status=$?
        [ $status = 0 ] || [ "$again" = fails ] || t_fail "$what: then, without a fault: exit status $status: $(head -n 1 stderr)"
        [ "$again" = fails ] || {
            right_output
            check_store
            "$then"
        }
    }
}

# Whether this kind of call can go wrong so, and differently from other ways.
fits() {
    case "$how $kind" in
    "SHORT read" | "SHORT write" | "ZERO sync" | "ZERO link" | "ZERO rename") ;;
    SHORT* | ZERO* | ENOSPC*read | ENOSPC*close | ENOSPC*unlink | ENOSPC*lock | ENOSPC*utime) return 1 ;;
    EINTR*mkdir | EINTR*unlink | EINTR*utime | EINTR*map) return 1 ;; # no system interrupts them
    esac
}

turn=0
# walk STATE OUTPUT WANTED THEN AGAIN COMMAND: every call of the command. OUTPUT: any, none, stdout or out (w/out), which WANTED equals.
walk() {
    state=$1 output=$2 wanted=$3 then=$4 again=$5 command=$6
    local n='' kind='' path='' how='' cases=0
    t_begin "D3 D4 D15 every call of ${command//w\/store/STORE}, from ${state}, goes wrong"
    rm -f calls
    export AKV_FAULT_LOG=$T/calls
    run "0 EIO" "$state" "$command"
    unset AKV_FAULT_LOG
    what="without a fault"
    [ $status = 0 ] || t_fail "without a fault: exit status $status: $(head -n 1 stderr)"
    right_output
    check_store
    n_cached=$found
    "$then"
    [ "$(wc -l <calls)" -gt 20 ] || t_fail "only $(wc -l <calls) calls were counted"
    what="the power fails at the end of ${state}: $command"
    run "0 POWER" "$state" "$command"
    check_store
    case $then in
    collected | evicted) ;; # objects may come back
    *) "$then" ;;
    esac
    while read -r n kind path; do
        for how in EIO ENOSPC ENOSPC+ EINTR SHORT KILL POWER ZERO INT TERM; do
            fits || continue
            turn=$(((turn + 1) % every))
            [ $turn = 0 ] || continue
            one "$n${how#"${how%+}"}" "$kind" "$path" "${how%+}"
            cases=$((cases + 1))
        done
    done <calls
    echo "$cases faults at $(wc -l <calls) calls: $command"
}
akv-pin -s full/store --export kept >pages.akv
walk none none /dev/null pinned works "akv-pin -q -s w/store name"
walk none out a.akv saved works "akv-prefill -q -s w/store --save -o w/out a.tok"
walk none stdout a.text saved works "akv-gen -q -s w/store --save -n $n_reply a.tok"
akv-restore -q -s full/store -o restored.akv a.tok
walk full out restored.akv nothing works "akv-restore -q -s w/store -o w/out a.tok"
walk full stdout a.text nothing works "akv-gen -q -s w/store -n $n_reply a.tok"
walk full out pages.akv nothing works "akv-pin -q -s w/store --export kept -o w/out"
walk full none /dev/null pinned works "akv-pin -q -s w/store name"
walk full none /dev/null renamed fails "akv-pin -q -s w/store --rename kept new"
walk full none /dev/null removed fails "akv-pin -q -s w/store --remove kept"
walk loose any /dev/null collected works "akv-pin -q -s w/store --gc --force"
walk tight out b.akv evicted works "akv-prefill -q -s w/store --save -o w/out b.tok"
walk tight any /dev/null nothing works "akv-pin -q -s w/store --quota 90000"
t_end
