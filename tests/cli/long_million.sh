# D9: a store of a million objects: lookup, list, verify, collect within time and memory. AKV_OBJECTS=N: of N.
. "$(dirname "$0")/../lib.sh"
t_needs plain jq
n=${AKV_OBJECTS:-1000000}
mkstore=$AKV_BUILD/tests/mkstore
free=$(df --output=avail -k "$T" | tail -n 1)
[ "$free" -gt $((n * 5)) ] || {
    t_fail "$free KB free, $((n * 5)) needed"
    t_end
    exit
}

# measured WHAT LIMIT_MB COMMAND...: run it, print what it cost, and hold the memory to a limit (times are printed, not judged).
measured() {
    local what=$1 limit=$2 cost
    shift 2
    t_run 0 "$mkstore" --measure "$@"
    cost=$(tail -n 1 "$t_stderr")
    echo "$what: $cost"
    [ "$(sed -E 's/.* ([0-9]+) MB$/\1/' <<<"$cost")" -le "$limit" ] || t_fail "$what: more than $limit MB"
}

t_begin "D9 $n objects can be made"
measured "making $n objects, 1000 of the chains pinned" 100 "$mkstore" -s store -n "$n" --pins 1000
t_begin "D9 lookup in a store of $n objects"
"$mkstore" -s store -n "$n" --lookup 20000 >/dev/null # the directories are in memory then
t_run 0 "$mkstore" -s store -n "$n" --lookup 20000
cat "$t_stdout"
t_begin "D9 list"
measured "listing 1000 pins" 200 akv-pin -s store --list
t_is "$(wc -l <"$t_stdout")" 1000 "pins"
t_begin "D9 collect: what would go, by a quota, then all that is not pinned"
measured "a dry run" 200 akv-pin -s store --gc --force --dry-run --json
t_is "$(jq -c '[.deleted, .objects]' "$t_stdout")" "[$((n - 10000)),10000]" "what would go and stay"
half=$(jq '(.bytes + .deleted_bytes) / 2 | floor' "$t_stdout")
measured "evicting half by a quota" 200 akv-pin -s store --quota "$half" --json
t_is "$(jq ".bytes <= $half and .bytes > $half * 0.99" "$t_stdout")" true "that half is left"
measured "collecting the rest" 200 akv-pin -s store --gc --force --json
t_is "$(jq .objects "$t_stdout")" 10000 "objects left"
t_run 0 akv-pin -s store --verify
t_end
