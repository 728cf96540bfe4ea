# What the tests with tests/fault/fault.c share; sourced after tests/lib.sh. In $T:
#   a.tok, b.tok    prompts of two pages and a tail each, with the first page in common
#   a.akv, b.akv    their pages as a run without a store computes them, and a.text, what akv-gen answers to a.tok
#   w               where the calls are counted that a fault hits: w/store and w/out
t_needs tiny jq
export AKV_MODEL=$TINY AKV_FAULT_UNDER=$T/w
n_reply=70 # enough to fill a page

text='Please write a short note to the others and tell them where to find us. When the user asks for the time of a meeting,
look into the calendar first, then answer with the time and the name of the room. It is warm and there is no chance of rain this morning.
What is the weather in the city today? The weather tool takes the name of a city and returns the temperature in degrees.'
printf '%s' "$text" | akv-tokenize --raw >a.tok || exit 1
jq -c '{akv, id: "b", n: 140, tokens: (.tokens[:70] + .tokens[3:73])}' a.tok >b.tok
akv-prefill -o a.akv a.tok && akv-prefill -o b.akv b.tok && akv-gen -n $n_reply a.tok >a.text || exit 1
sleep 2 # for the cache of the weights' hashes, which takes no file that young
akv-prefill -s warm --save -o /dev/null a.tok && rm -rf warm

# faulty SPEC COMMAND...: run it with that fault under w.
faulty() {
    AKV_FAULT=$1 LD_PRELOAD=$AKV_BUILD/tests/fault.so ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0:handle_sigbus=0 timeout 60 "${@:2}"
}

temps() {
    find w -name '.akv-*' -print -o -path 'w/store/tmp/*' -print 2>/dev/null
}

# Every object of w/store is whole, right, under its own name and behind its parent, every pin has its chain, nothing was ever found wrong.
audit() {
    [ -z "$(find w/store/quarantine -type f 2>/dev/null)" ] || t_fail "$what: something went to quarantine"
    if [ -e w/store/VERSION ]; then
        akv-pin -s w/store --verify >audit.out 2>&1 || t_fail "$what: the store does not verify: $(tail -n 3 audit.out | tr '\n' '|')"
    else
        [ -z "$(find w/store/objects w/store/refs -type f 2>/dev/null)" ] || t_fail "$what: there is something in a store that is none yet"
    fi
}

# check_store: w/store is right, and a run with it gives the pages of a run without. $found: how many tokens it finds there. A store with
# the same files as one that was looked at before is not looked at again.
declare -A looked_at=()
check_store() {
    local state
    state=$(find w/store -type f ! -path 'w/store/tmp/*' -print0 2>/dev/null | LC_ALL=C sort -z | xargs -0r sha256sum | sha256sum)
    found=${looked_at[$state]-}
    [ -z "$found" ] || return 0
    audit
    rm -f stats
    akv-prefill -q -s w/store --stats=stats -o got.akv a.tok 2>got.err || t_fail "$what: a run after it: $(head -n 1 got.err)"
    cmp -s got.akv a.akv || t_fail "$what: a run after it gives other pages"
    found=$(jq .cached_tokens stats)
    [ "$found" -ge 64 ] || [ -z "$(find w/store/objects -type f 2>/dev/null)" ] || t_fail "$what: nothing is used of what is there"
    looked_at[$state]=$found
}
