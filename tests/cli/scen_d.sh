# Streams in pipes and files: joined, cut, slow, and under strange names.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/forge.sh"
t_needs tiny jq

export AKV_MODEL=$TINY
text='Please write a short note to the others and tell them where to find us. When the user asks for the time of a meeting, look into
the calendar first, then answer with the time and the name of the room. It is warm and there is no chance of rain this morning.'
printf '%s' "$text" | akv-tokenize --raw | jq -c '.id = "a"' >a.tok || exit 1
printf '%s' "${text//the/a}" | akv-tokenize --raw | jq -c '.id = "b"' >b.tok || exit 1
jq -c '{akv, id: "anchor", n: 70, tokens: .tokens[:70], gen: {max_tokens: 0}}' a.tok >anchor.tok
for name in a b anchor; do akv-prefill -o $name.akv $name.tok || exit 1; done
akv-prefill --delta=anchor.akv -o delta.akv a.tok || exit 1
"$AKV_BUILD/tests/mkmodel" --seed 7 -o other.gguf && akv-prefill -m other.gguf -o other.akv a.tok || exit 1
answer='jq -c "[.id, .text, .tokens]"'
bash -c "akv-gen -n 8 --json a.tok | $answer >a.json; akv-gen -n 8 --json b.tok | $answer >b.json"
pages='akv-inspect --json | jq -r "select(.type == \"P\").key"'

# joined ANSWERS STREAM...: the streams one after the other have these answers.
joined() {
    local answers=$1
    shift
    t_sh 0 "cat $* | akv-gen -n 8 --json >replies"
    t_sh 0 "$answer replies >joined.json"
    t_same "$answers" joined.json
}

# All offsets and bits are tried in test_snap_bad; here it is what the tools make of some.
t_begin "D1 one bit flipped: exit 3 with the number of the record, and no reply"
size=$(stat -c %s a.akv)
for i in {1..24}; do
    at=$((size * i / 25 + i))
    byte=$(od -An -tu1 -j $at -N 1 a.akv)
    cp a.akv flipped.akv
    bytes "$(printf %02x $((byte ^ 1 << i % 8)))" | patch flipped.akv $at
    for tool in akv-gen akv-prefill "akv-pin -s flipped x <"; do
        t_sh 3 "$tool flipped.akv"
        t_err "record [0-9]+"
        t_is "$(wc -l <"$t_stderr")" 1 "lines on stderr at $at"
    done
done
[ ! -e flipped ] || t_is "$(akv-pin -s flipped --list)" "" "the pins"

t_begin "D1 a sound body of another page of equal size in a stored object: that page is computed"
akv-pin -q -s spliced made <anchor.akv && akv-pin -q -s spliced --remove made && akv-pin -q -s spliced --gc --force
echo codec=raw >spliced/config
jq -c '.id = "c" | .tokens = (.tokens + .tokens + .tokens)[:200] | .n = 200 | {akv, id, n, tokens}' b.tok >c.tok
akv-prefill -s spliced --save -o /dev/null c.tok
page1=$(object spliced 1)
page2=$(object spliced 2)
at=$(akv-inspect --json "$page1" | jq 'select(.type == "P") | .offset + 8 + .header_bytes')
size=$(akv-inspect --json "$page1" | jq 'select(.type == "P").coded_bytes')
tail -c +$((at + 1)) "$page2" | head -c "$size" | patch "$page1" "$at"
t_sh 0 "akv-gen -n 8 --json c.tok | $answer >cold-c.json"
t_sh 0 "akv-gen -n 8 --json -s spliced --stats=spliced.stats c.tok | $answer"
t_out_is cold-c.json
t_err "$(basename "$page1"): .*page 1: the body is damaged"
t_is "$(jq -r .cached_tokens spliced.stats)" 64 "tokens of the pages before it"
t_is "$(find spliced/quarantine -name '*.why' | wc -l)" 1 "objects in quarantine"

# claim FIELD BYTES: huge.akv, whose first page says these bytes (in hex) at that offset of its header, under a right checksum.
claim() {
    local at n
    at=$(akv-inspect --json a.akv | jq 'select(.record == 2).offset + 8')
    n=$(akv-inspect --json a.akv | jq 'select(.record == 2).header_bytes')
    cp a.akv huge.akv
    bytes "$2" | patch huge.akv $((at + $1))
    seal huge.akv "$at" $((n - 8)) $((at + n - 8))
}
if t_begin "D2 a page that claims 2^63 bytes, or 2^32 - 1 tokens: refused before room is made for it" plain xxhsum; then
    for field in 'raw size:104:0000000000000080' 'body of:16:0000000000000080' 'tokens:96:ffffffff' 'out of range:92:ffffffff'; do
        IFS=: read -r why at hex <<<"$field"
        claim "$at" "$hex"
        for tool in akv-gen akv-inspect "akv-pin -s huge x <"; do
            t_sh 3 "ulimit -v 1000000; $tool huge.akv"
            t_err "record 2 .*$why"
        done
    done
fi

t_begin "D10 two whole chains"
cat a.json b.json >both.json
joined both.json a.akv b.akv
t_sh 0 "cat a.akv b.akv | akv-prefill | akv-gen -n 8 --json | $answer"
t_out_is both.json
t_sh 0 "cat a.akv b.akv | akv-pin -s store --all pair"
t_is "$(akv-pin -s store --list --json | jq -r .name | tr '\n' ' ')" "pair-1 pair-2 " "the pins"
t_sh 2 "cat a.akv b.akv | akv-pin -s store2 pair"
t_err_line '^akv-pin: pair: the stream has 2 tips '
t_sh 0 "akv-restore -s store a.tok b.tok | akv-gen -n 8 --json --stats=stats | $answer"
t_out_is both.json
t_is "$(jq -r .hit stats | sort -u)" full "hits"

t_begin "D10 the same file twice: its pages are known and skipped, both requests are answered"
cat a.json a.json >twice.json
joined twice.json a.akv a.akv
t_sh 0 "cat a.akv | $pages >once; cat a.akv a.akv | akv-prefill | $pages"
t_out_is once
t_sh 0 "cat a.akv a.akv | akv-pin -s store3 once"
t_sh 0 "akv-pin -s store3 --export once | $pages"
t_out_is once

t_begin "D10 a chain and its continuation; the continuation first"
joined a.json anchor.akv delta.akv
for tool in akv-gen akv-prefill; do
    for order in "delta.akv anchor.akv" delta.akv; do
        t_sh 3 "cat $order | $tool"
        t_err "^$tool: standard input: record 2: page 1: its parent is not in the stream"
        t_is "$(wc -l <"$t_stderr")" 1 "lines on stderr"
    done
done
t_run 0 akv-inspect delta.akv
t_out 'open'
t_sh 3 "akv-pin -s store4 open <delta.akv"
t_err_line '^akv-pin: standard input: record 2: .*parent'
t_sh 0 "akv-pin -q -s store4 anchor <anchor.akv; akv-pin -q -s store4 whole <delta.akv"
t_sh 0 "akv-pin -s store4 --export whole | akv-inspect --verify"
t_sh 0 "akv-restore -s store4 a.tok | akv-gen -n 8 --json | $answer"
t_out_is a.json

t_begin "D10 two models"
for order in "a.akv other.akv" "other.akv a.akv"; do
    t_sh 4 "cat $order | akv-gen -n 8 --json"
    t_err "^akv-gen: standard input: record [0-9]+.*: weights is [0-9a-f]{64}, here it is [0-9a-f]{64}\$"
    t_is "$(wc -l <"$t_stderr")" 1 "lines on stderr"
    t_sh 4 "cat $order | akv-pin -s store5 x"
    t_err 'weights is'
    t_sh 4 "cat $order | akv-inspect"
    t_err 'weights is'
done
t_run 0 akv-pin -s store5 --list
t_out_is /dev/null

t_begin "D11 a stream through head -c, at the ends of its records and between them"
size=$(stat -c %s a.akv)
ends=$(akv-inspect --json a.akv | jq '.offset // empty')
for n in $ends $((size / 3)) $((size / 2)) $((size - 1)); do
    for tool in akv-gen akv-prefill "akv-restore -s store" "akv-pin -s cutstore x" akv-inspect "akv-inspect --raw"; do
        t_sh 3 "timeout 20 head -c $n a.akv | timeout 20 $tool"
        [ "$n" -eq 0 ] || t_err "^${tool%% *}: standard input: .*(truncated|ends)"
        t_is "$(wc -l <"$t_stderr")" 1 "lines on stderr at $n"
    done
done
[ ! -e cutstore ] || t_is "$(akv-pin -s cutstore --list)" "" "the pins"

t_begin "D11 a slow pipe of single bytes"
t_sh 0 "timeout 60 dd bs=1 status=none if=a.akv | timeout 60 akv-gen -n 8 --json | $answer"
t_out_is a.json
t_sh 0 "timeout 60 dd bs=1 status=none if=a.akv | akv-prefill"
t_out_is a.akv
t_sh 0 "dd bs=1 status=none if=a.akv | akv-inspect --verify"
t_sh 0 "dd bs=1 status=none if=a.akv | akv-pin -q -s slow x"
t_sh 0 "dd bs=1 status=none if=a.tok | akv-prefill"
t_out_is a.akv
t_sh 0 "jq -n --rawfile t /dev/stdin '{prompt: \$t}' <<<'pears' | dd bs=1 status=none | akv-tokenize"
t_begin "D11 a request is answered when it is there, not at the end of its pipe"
mkfifo pipe
akv-gen -n 8 --json <pipe >early.json 2>early.err &
gen=$!
exec 9>pipe
cat a.akv >&9
for ((i = 0; i < 200; i++)); do
    [ -s early.json ] && break
    sleep 0.05
done
t_sh 0 "$answer early.json"
t_out_is a.json
cat b.tok >&9 # records do not follow a stream
exec 9>&-
wait $gen
t_is $? 3 "the exit status"
t_grep early.err stderr '^akv-gen: standard input: record [0-9]+ .*no record begins here'
t_begin "D11 a FIFO to write to, a reader that goes away, a reader that waits"
cat pipe >through.akv &
t_run 0 timeout 20 akv-prefill -o pipe a.tok
wait $!
t_same a.akv through.akv
[ -p pipe ] || t_fail "the FIFO was replaced"
t_sh 0 "(timeout 20 akv-prefill a.tok; echo \$? >status) | head -c 100 | wc -c"
t_is "$(cat "$t_stdout")" 100 "bytes"
t_sh 0 "timeout 20 akv-prefill a.tok | (sleep 0.3; cat)"
t_out_is a.akv
t_sh 0 "(sleep 0.3; cat a.akv) | timeout 20 akv-gen -n 8 --json | $answer"
t_out_is a.json
if t_begin "D11 a signal ends the wait for a reader that does not read" jq; then
    jq -nc '{akv: "tokens/1", id: "l", n: 6400, tokens: [range(6400) | . * 7 % 300]}' >long.tok
    akv-prefill -q -c 6464 -s long --save -o long.akv long.tok
    akv-pin -q -s long long <long.akv
    [ "$(stat -c %s long.akv)" -gt 1048576 ] || t_fail "a pipe would hold all of the stream"
    exec 9<>pipe
    for command in "prefill -q -c 6464 long.tok" "restore -q -c 6464 -s long long.tok" "pin -s long --export long" "inspect --raw 0 long.akv"; do
        t_sh 143 "timeout --preserve-status -k 60 1 akv-$command >pipe"
    done
    t_sh 143 "timeout --preserve-status -k 60 1 akv-prefill -q -c 6464 -o pipe long.tok"
    exec 9>&-
fi
t_begin "D11 a pipeline with a closed end fails at once"
t_sh 3 "akv-tokenize --raw </dev/null | timeout 20 akv-prefill | timeout 20 akv-gen"
t_is "$(wc -l <"$t_stderr")" 3 "lines on stderr"
t_sh 5 "timeout 20 akv-prefill a.tok <&- | timeout 20 akv-gen -n 8 >/dev/full"
t_sh 5 "akv-prefill a.tok | timeout 20 akv-gen -n 8 >&-"

# The names that follow are used for everything that has a name.
long=$(printf 'x%.0s' {1..255})
for name in 'a name with spaces' $'a\nnew line' '-dash' '--' '%s%n' 'ü€𝄞' "$long"; do
    t_begin "D12 files named $(printf '%.20q' "$name")"
    rm -rf names && mkdir names && cd names || exit 1
    cp ../a.tok ./"$name"
    t_run 0 akv-prefill -o ../out.akv -- "$name"
    t_same ../a.akv ../out.akv
    t_run 0 akv-prefill ../a.tok -o "$name"
    t_same ../a.akv ./"$name"
    t_run 0 akv-prefill --delta="$name" -o ../out.akv ../a.tok
    t_run 0 akv-inspect --verify -- "$name"
    t_is "$(wc -l <"$t_stdout")" 1 "lines on stdout"
    t_is "$(find . -mindepth 1 -printf . | wc -c)" 1 "the number of files"
    rm -- ./"$name"
    cp "$TINY" ./"$name"
    t_sh 0 "akv-gen -m '$name' -n 8 --json ../a.tok | $answer"
    t_out_is ../a.json
    rm -- ./"$name"
    t_run 0 akv-gen -s "$name" --save -n 8 ../a.tok
    t_run 0 akv-gen -s "$name" --stats=../"stats-${name:0:200}" -n 8 ../a.tok
    t_is "$(jq -r .hit ../"stats-${name:0:200}")" partial "hit in a store of that name"
    cd .. || exit 1
    t_run 5 akv-gen -- "$name.none"
    t_is "$(wc -l <"$t_stderr")" 1 "lines on stderr"
done
t_end
