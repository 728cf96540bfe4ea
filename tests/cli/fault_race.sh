# One process is stopped where it has seen something and not yet acted upon it; another one changes just that; the first goes on.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/fault/rig.sh"
. "$TOP/tests/forge.sh"

# until_stopped: the process in the background has stopped; 1: it has ended.
until_stopped() {
    local i state=
    for ((i = 0; i < 3000; i++)); do
        [ ! -s pid ] || state=$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$(cat pid)/status" 2>/dev/null)
        case $state in
        T) return 0 ;;
        Z) return 1 ;;
        '') [ ! -s pid ] || return 1 ;;
        esac
        sleep 0.02
    done
    t_fail "it neither stops nor ends"
    return 1
}
go_on() {
    kill -CONT "$(cat pid)"
}
# call KIND TEXT COMMAND: the number of the first call of that kind on a path with that text.
call() {
    rm -f calls
    AKV_FAULT_LOG=$T/calls faulty "0 EIO" bash -c "exec $3" >/dev/null 2>&1
    grep -m 1 " $1 .*$2" calls | cut -d ' ' -f 1
}
# stopping SPEC COMMAND: run it in the background, its process id in `pid`, until it stops there.
stopping() {
    rm -f pid
    faulty "$1" bash -c "echo \$\$ >pid; exec $2" >stdout 2>stderr &
    until_stopped || t_fail "it does not stop at call $1"
}

rm -rf w && mkdir -p w && akv-pin -q -s w/store name <a.akv || exit 1
page=$(object w/store 1)
printf '\xa5' | patch "$page" $(($(stat -c %s "$page") - 200))
cp -a w damaged
restore="akv-restore -q -s w/store -o out.akv a.tok"
n=$(call rename /quarantine/ "$restore")
again() {
    rm -rf w && cp -a damaged w
}
# healed: the right page is where it belongs, and one damaged one in quarantine.
healed() {
    wait
    t_is "$(find w/store/quarantine -type f ! -name '*.why' | wc -l)" 1 "objects in quarantine"
    t_is "$(find w/store/quarantine -name '*.why' | wc -l)" 1 "reasons in quarantine"
    t_run 0 akv-pin -s w/store --verify
    t_run 0 akv-pin -s w/store --export name
    t_run 0 akv-prefill -q -s w/store --stats -o got.akv a.tok
    t_is "$(jq .cached_tokens "$t_stderr")" "$(($(jq .n a.tok) - 1))" "cached_tokens"
}

t_begin "a page that was found damaged is replaced by another process before it is taken away: the right one stays"
again
stopping "$n STOP" "$restore"
t_run 0 akv-prefill -q -s w/store --save -o got.akv a.tok
go_on
healed

t_begin "and replaced once more while it is put back"
again
stopping "$n+ STOP" "$restore"
t_run 0 akv-prefill -q -s w/store --save -o got.akv a.tok
go_on
until_stopped || t_fail "it does not put it back"
t_run 0 akv-prefill -q -s w/store --save -o got.akv a.tok
go_on
while until_stopped; do go_on; done
healed
t_end
