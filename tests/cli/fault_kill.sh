# D3, D8: eight processes at a time on one store, which pin, compute and save, restore, take pins away and collect, and SIGKILL for some of
# them at any instant. What the others give is what they would give alone, and what the dead leave behind is right.
# A minute with AKV_LONG=1, as in `make fault`; else some seconds. AKV_SEED=N chooses what is killed when.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/fault/rig.sh"
akv-gen -n "$n_reply" b.tok >b.text || exit 1
seed=${AKV_SEED:-$((RANDOM + $$))}
seconds=${AKV_LONG:+60}
seconds=${seconds:-5}
RANDOM=$seed
echo "seed $seed"

# task N: one of the things that are done at once, its output in out.N; which one depends on N.
task() {
    local name=a
    [ $(($1 / 2 % 2)) = 0 ] || name=b
    case $1 in
    0 | 2) exec akv-pin -q -s w/store $name <$name.akv ;;
    1 | 3) exec akv-prefill -q -s w/store --save -o "w/out.$1" $name.tok ;;
    4 | 6) exec akv-gen -q -s w/store --save -n "$n_reply" $name.tok ;;
    5) exec akv-restore -q -s w/store -o w/out.5 a.tok ;;
    7)
        [ $((round % 2)) = 0 ] || exec akv-pin -q -s w/store --gc --force
        exec akv-pin -q -s w/store --remove a
        ;;
    esac
}

# right N STATUS: what task N has done, when nobody killed it.
right() {
    what="task $1 of round $round, seed $seed, exit status $2: $(head -n 1 "err.$1")"
    case $1 in
    7) [ "$2" -le 1 ] || t_fail "$what" ;;
    0 | 2) # a forced collection takes what is not pinned yet, too, and then the pin says so
        [ "$2" = 0 ] || { [ $((round % 2)) = 1 ] && [ "$2" = 5 ] && grep -q 'collection has taken it meanwhile' "err.$1"; } || t_fail "$what"
        ;;
    *) [ "$2" = 0 ] || t_fail "$what" ;;
    esac
    case $1 in
    1) cmp -s w/out.1 a.akv || t_fail "$what: other pages" ;;
    3) cmp -s w/out.3 b.akv || t_fail "$what: other pages" ;;
    4) cmp -s stdout.4 a.text || t_fail "$what: other text" ;;
    6) cmp -s stdout.6 b.text || t_fail "$what: other text" ;;
    5) akv-prefill w/out.5 2>/dev/null | cmp -s - a.akv || t_fail "$what: its pages do not lead to the right ones" ;;
    esac
}

# one_round: the eight at once, and SIGKILL for some.
one_round() {
    local n pids=() alive=()
    for n in 0 1 2 3 4 5 6 7; do
        task $n >"stdout.$n" 2>"err.$n" &
        pids+=($!)
    done
    for ((n = RANDOM % 8; n > 0; n--)); do
        sleep "0.00$((RANDOM % 10))"
        mapfile -t alive < <(jobs -pr)
        [ ${#alive[@]} -eq 0 ] || kill -9 "${alive[RANDOM % ${#alive[@]}]}"
    done
    for n in 0 1 2 3 4 5 6 7; do
        wait "${pids[n]}"
        status=$?
        runs=$((runs + 1))
        [ $status = 137 ] || right $n $status
        kills=$((kills + (status == 137)))
    done
}

t_begin "D3 D8 eight processes, some of them killed: what is left is right"
rm -rf w && mkdir w
round=0 kills=0 runs=0
end=$((SECONDS + seconds))
while [ $SECONDS -lt $end ]; do
    round=$((round + 1))
    [ $((round % 8)) != 0 ] || rm -rf w/store # from nothing, too
    one_round 2>/dev/null # bash tells of every process killed
    what="after round $round, seed $seed"
    rm -f w/.akv-*
    [ $((round % 3)) != 0 ] || [ ! -e w/store ] || { # forced, it collects what no pin holds and sweeps what the dead left
        akv-pin -q -s w/store --gc --force >swept 2>&1 || t_fail "$what: --gc: $(head -n 1 swept)"
        [ -z "$(temps)" ] || t_fail "$what: left $(temps | head -n 1)"
    }
    check_store
    for name in a b; do
        akv-pin -s w/store --export "$name" >exported 2>err
        status=$?
        [ $status = 1 ] || { [ $status = 0 ] && akv-prefill exported "$name.tok" >got 2>&1 && akv-inspect --verify exported >got 2>&1; } ||
            t_fail "$what: pin $name: exit status $status: $(head -n 1 err)"
    done
    [ -z "$t_bad" ] || break
done
echo "$round rounds, $kills of $runs processes killed"
t_end
