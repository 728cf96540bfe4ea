# A18 and what goes with it: pages are restored by any number of threads, alone and into an output, from a store of either codec and
# from a stream. The result is that of a cold run; damage in the middle costs the pages from there on, and is named.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/forge.sh"
t_needs tiny jq
export AKV_MODEL=$TINY
seq 1000 1200 | akv-tokenize --raw >long.tok
pages=$(($(jq .n long.tok) / 64))
[ "$pages" -ge 9 ] || t_fail "the prompt has $pages pages"
akv-gen -n 8 --json long.tok | jq -c '[.text, .tokens]' >cold
akv-prefill -o cold.akv long.tok
for codec in planes raw; do
    akv-tokenize --raw <<<x | akv-prefill -s $codec --save >/dev/null # makes it
    sed -i "s/codec=.*/codec=$codec/" $codec/config
    akv-prefill -s $codec --save long.tok >/dev/null
done

# object_of STORE INDEX: the path of the object of that page.
object_of() {
    local object
    for object in "$1"/objects/*/*; do
        ! akv-inspect --json "$object" | jq -es "any(.[]; .type == \"P\" and .index == $2)" >/dev/null || echo "$object"
    done
}

# warm STORE THREADS CACHED: reply and stream are those of a cold run, with so many tokens from the store.
warm() {
    t_run 0 akv-gen -q -s "$1" -@ "$2" -n 8 --json --stats=stats long.tok
    t_is "$(jq -c '[.text, .tokens]' "$t_stdout")" "$(cat cold)" "the reply of $1 with $2 threads"
    t_is "$(tail -n 1 stats | jq .cached_tokens)" "$3" "tokens restored from $1 with $2 threads"
    rm -f stats
}

for codec in planes raw; do
    t_begin "a store of $codec: the whole prompt, by one thread and by several"
    for threads in 1 2 3 8; do
        warm $codec $threads $(($(jq .n long.tok) - 1))
        t_run 0 akv-prefill -q -s $codec -@ $threads -o warm.akv long.tok
        t_same cold.akv warm.akv
    done

    t_begin "A18 page 5 is damaged in a store of $codec: 0 to 4 are used, the rest is computed, the page is named"
    for threads in 1 2 8; do
        rm -rf hurt && cp -a $codec hurt
        object=$(object_of hurt 5)
        bytes ff | patch "$object" $(($(stat -c %s "$object") / 2))
        cp -a hurt again
        t_run 0 akv-gen -s hurt -@ $threads -n 8 --json --stats=stats long.tok
        t_err "^akv-gen: hurt/objects/.*damaged"
        t_is "$(jq -c '[.text, .tokens]' "$t_stdout")" "$(cat cold)" "the reply with $threads threads"
        t_is "$(jq -r '[.hit, .cached_tokens, .pages, (.miss | .[:7])] | @tsv' stats)" "$(printf 'partial\t320\t5\tpage 5:')" "what was used"
        t_is "$(find hurt/quarantine -name '*.why' | wc -l)" 1 "objects in quarantine"
        [ ! -e "$object" ] || t_fail "the damaged object is still there"
        warm hurt $threads 320
        t_run 0 akv-prefill -q -s again -@ $threads -o warm.akv long.tok
        t_same cold.akv warm.akv
        rm -rf again stats
    done
done

t_begin "f32 pages go into place from a store of either codec; one that was cut short, or is empty, ends the chain"
akv-gen --kv f32 -n 8 --json long.tok | jq -c '[.text, .tokens]' >cold32
for codec in planes raw; do
    cp -a $codec wide && rm -r wide/objects/*
    akv-prefill --kv f32 -s wide --save long.tok >/dev/null
    akv-inspect --json wide/objects/*/* | jq -r 'select(.type == "P" and .n == 64) | .codec' | sort -u >codecs
    t_is "$(cat codecs)" "$codec" "the codec of full pages"
    for cut in none short empty; do
        rm -rf hurt && cp -a wide hurt
        want=$(($(jq .n long.tok) - 1))
        if [ $cut != none ]; then
            size=0
            [ $cut = empty ] || size=1900
            for object in $(object_of hurt 3); do truncate -s $size "$object"; done
            want=192
        fi
        t_run 0 akv-gen -q --kv f32 -s hurt -@ 2 -n 8 --json --stats=stats long.tok
        t_is "$(jq -c '[.text, .tokens]' "$t_stdout")" "$(cat cold32)" "the f32 reply from $codec, cut: $cut"
        t_is "$(tail -n 1 stats | jq .cached_tokens)" "$want" "f32 tokens restored from $codec, cut: $cut"
        rm -f stats
    done
    rm -r wide
done

t_begin "what is damaged gives way to the longest shorter tail, also under a full page; by any threads, alone and into an output"
full=$((pages * 64))
cp -a planes tails
for n in 5 20 40; do # tails in the place of page 5
    jq -c --argjson n $((320 + n)) '.n = $n | .tokens |= .[:$n] | del(.spans, .anchors)' long.tok | akv-prefill -q -s tails --save >/dev/null
done
for threads in 1 2 8; do
    rm -rf hurt && cp -a tails hurt
    for want in "$((full + 64))" 360 340 325 320; do
        cp -a hurt again
        t_run 0 akv-gen -q -s hurt -@ $threads -n 8 --json --stats=stats long.tok
        t_is "$(jq -c '[.text, .tokens]' "$t_stdout")" "$(cat cold)" "the reply with $threads threads"
        [ "$want" -gt "$full" ] || t_is "$(tail -n 1 stats | jq .cached_tokens)" "$want" "tokens restored with $threads threads"
        t_run 0 akv-prefill -q -s again -@ $threads -o warm.akv long.tok
        t_same cold.akv warm.akv
        rm -rf again stats
        next=$((want > 360 ? 64 : want - 320))
        for object in hurt/objects/*/*; do
            ! akv-inspect --json "$object" | jq -es "any(.[]; .type == \"P\" and .index == 5 and .n == $next)" >/dev/null ||
                bytes ff | patch "$object" $(($(stat -c %s "$object") * 2 / 3))
        done
    done
done

t_begin "a stream: the reply is a cold one's, whatever the threads"
for threads in 1 2 3 8; do
    t_sh 0 "akv-gen -@ $threads -n 8 --json --stats=stats <cold.akv"
    t_is "$(jq -c '[.text, .tokens]' "$t_stdout")" "$(cat cold)" "the reply with $threads threads"
    t_is "$(jq -r '[.hit, .source] | @tsv' stats)" "$(printf 'full\tstream')" "what was used"
    rm stats
    t_sh 0 "akv-prefill -@ $threads <cold.akv"
    t_out_is cold.akv
done

# spoil FILE AT: the body of the page record there does not decode any more, under checksums that fit.
spoil() {
    local header body
    header=$(u32 "$1" $(($2 + 4))) body=$(u32 "$1" $(($2 + 24)))
    head -c 64 /dev/zero | patch "$1" $(($2 + 8 + header + body / 2))
    seal "$1" $(($2 + 8 + header)) "$body" $(($2 + 8 + 144))
    seal "$1" $(($2 + 8)) $((header - 8)) $(($2 + header))
}
if t_begin "a stream whose page does not decode: its record is named, also when more is wrong behind it" xxhsum; then
    akv-inspect --json cold.akv | jq -r 'select(.type == "P" and .index == 5) | [.record, .offset] | @tsv' >where
    read -r record offset <where
    cp cold.akv bad.akv
    spoil bad.akv "$offset"
    header=$(u32 bad.akv $((offset + 4))) body=$(u32 bad.akv $((offset + 24)))
    head -c $((offset + 8 + header + body + 100)) bad.akv >cut.akv
    for threads in 1 2 8; do
        for file in bad cut; do
            t_run 3 akv-gen -@ $threads $file.akv
            t_err_line "^akv-gen: $file.akv: record $record: page 5: the body "
        done
    done
fi
if t_begin "an object whose page does not decode goes to quarantine, and the next run that saves puts another in its place" xxhsum; then
    for index in 5 $pages; do # $pages: the tail
        for threads in 1 8; do
            rm -rf hurt && cp -a planes hurt
            object=$(object_of hurt "$index")
            spoil "$object" "$(akv-inspect --json "$object" | jq 'select(.type == "P").offset')"
            t_run 0 akv-prefill -s hurt --save -@ $threads -o warm.akv long.tok
            t_err_line "^akv-prefill: $object: page $index: the body "
            t_same cold.akv warm.akv
            t_is "$(find hurt/quarantine -name '*.why' | wc -l)" 1 "objects in quarantine"
            warm hurt $threads $(($(jq .n long.tok) - 1))
            t_run 0 akv-pin -s hurt --verify
        done
    done
fi
t_end
