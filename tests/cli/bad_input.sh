# Bad input, bad models, bad places to write to: one clear line, the right exit status, nothing half-written, no hang.
. "$(dirname "$0")/../lib.sh"

t_needs tiny jq

# Inputs lie in in/, the tools run in work/, where only the file `kept` is: what else is there afterwards was left behind.
mkdir in work in/directory
echo old >work/kept
system='You are a helpful assistant that answers in short sentences and calls a tool when the question needs one.'
jq -nc --arg s "$system" '{messages: [{role: "system", content: $s}, {role: "user", content: "What is the weather?"}]}' >in/chat.json
export AKV_MODEL=$TINY
akv-tokenize -o in/chat.tok in/chat.json && akv-prefill -o in/chat.akv in/chat.tok && akv-pin -q -s in/store pinned <in/chat.akv || exit 1
cd work || exit 1

left_nothing() {
    t_is "$(find . -mindepth 1 | LC_ALL=C sort | tr '\n' ' ')" "./kept " "what lies in the directory"
    t_is "$(cat kept)" "old" "the file of -o"
    echo old >kept
}

# bad STATUS PATTERN INPUT TOOL [ARGUMENT...]: fails so, to standard output and with -o (where the tool has it) alike.
bad() {
    local status=$1 pattern=$2 input=$3 out
    shift 3
    for out in '' kept; do
        case $out$1 in keptakv-bench | keptakv-pin) continue ;; esac
        t_run "$status" timeout 20 "$@" ${out:+-o "$out"} <"$input"
        t_err_line "^$1: [^:]+: .+"
        t_err "$pattern"
        left_nothing
    done
}

# The eight tools, each reading standard input. chat: those that read token records.
tokenize=(akv-tokenize)
split=(akv-split)
prefill=(akv-prefill)
restore=(akv-restore -q -s ../in/store)
gen=(akv-gen -n 2)
pin=(akv-pin -s store name)
inspect=(akv-inspect)
bench=(akv-bench turns)
readers_of_records="split prefill restore gen bench"
readers_of_json="tokenize $readers_of_records"
all_tools="$readers_of_json pin inspect"

# each TOOLS STATUS PATTERN INPUT [ARGUMENT...]: bad for each of them.
each() {
    local tools=$1 status=$2 pattern=$3 input=$4 name
    shift 4
    for name in $tools; do
        local -n tool=$name
        bad "$status" "$pattern" "$input" "${tool[@]}" "$@"
    done
}

# given TEXT: the text as a file of input, backslashes as they stand.
given() {
    printf '%s' "$1" >../in/given
}

t_begin "empty standard input"
each "$all_tools" 3 'standard input: empty input' /dev/null
t_begin "an empty file as operand"
: >../in/empty
for name in tokenize split prefill restore gen inspect; do each $name 3 'empty: empty input' /dev/null ../in/empty; done
t_begin "white space alone is empty input too"
printf ' \n\t\n' >../in/given
each "$readers_of_json" 3 'empty input' ../in/given

t_begin "no JSON"
for text in hello '{"prompt":"x"' '{"prompt":"x",}' '{prompt:"x"}' "{'prompt':'x'}" '{"prompt":"x"}}' '[' '"' ']'; do
    given "$text"
    [ "$text" = '{"prompt":"x"}}' ] || each "$readers_of_json" 3 'offset [0-9]+: not valid JSON' ../in/given
done
given hello
each "pin inspect" 3 'stream' ../in/given

t_begin "a text file is one bad request, not one a line; what follows is read"
printf 'Dear all,\nthis is "text": 1\n\nnot {JSON}\n' >../in/given
each "$readers_of_json" 3 'standard input: (request|record) 1: text, not JSON: offset 4: not valid JSON' ../in/given
printf 'Dear all,\n\nthis\n{"prompt":"x"}\nand\nthat\n{"prompt":"y"}\n' >../in/given
t_run 3 akv-tokenize ../in/given
t_is "$(jq -r .id "$t_stdout" | paste -sd ' ')" "r2 r4" "ids"
t_is "$(wc -l <"$t_stderr")" 2 "errors"

t_begin "nesting without end"
head -c 100000 /dev/zero | tr '\0' '[' >../in/given
each "$readers_of_json" 3 'nested too deep' ../in/given

t_begin "broken UTF-8, lone surrogates, NUL bytes"
printf '{"messages":[{"role":"user","content":"\xff\xfe"}]}' >../in/given
each "$readers_of_json" 3 'offset [0-9]+: not valid JSON' ../in/given
printf '{"akv":"tokens/1","id":"\xc0\x80","n":1,"tokens":[1]}' >../in/given
each "$readers_of_json" 3 'offset [0-9]+: not valid JSON' ../in/given
for text in '{"prompt":"a\ud800b"}' '{"prompt":"a\udc00b"}' '{"akv":"tokens/1","id":"\ud83d","n":1,"tokens":[1]}'; do
    given "$text"
    each "$readers_of_json" 3 'not valid JSON' ../in/given
done
printf '{"prompt":"a\0b"}' >../in/given
each "$readers_of_json" 3 'not valid JSON' ../in/given
printf '\0\0\0\0' >../in/given
each "$readers_of_json" 3 'not valid JSON' ../in/given
each "pin inspect" 3 'stream' ../in/given

t_begin "chat requests of the wrong shape"
while IFS='|' read -r pattern text; do
    given "$text"
    each tokenize 3 "standard input: request 1: $pattern" ../in/given
done <<'LIST'
the request is not|42
the request is not|"prompt"
the request is not|[{"prompt":"x"}]
neither messages nor prompt|{}
neither messages nor prompt|{"akv":"tokens/1","id":"a","n":1,"tokens":[1]}
messages: |{"messages":5}
messages: |{"messages":{"role":"user"}}
messages\[0\]: |{"messages":[5]}
messages\[0\].role: |{"messages":[{"content":"x"}]}
messages\[0\].role: |{"messages":[{"role":1,"content":"x"}]}
messages\[1\].content: |{"messages":[{"role":"user","content":"x"},{"role":"user","content":7}]}
prompt: |{"prompt":5}
messages and prompt: |{"prompt":"x","messages":[]}
.*max_tokens|{"prompt":"x","max_tokens":-1}
.*temperature|{"prompt":"x","temperature":"hot"}
.*stop|{"prompt":"x","stop":5}
LIST

t_begin "unknown top-level fields of a chat request are refused by name"
given '{"messages":[{"role":"user","content":"x"}],"frobnicate":1}'
each tokenize 3 'request 1: frobnicate: unknown field' ../in/given
t_run 0 akv-tokenize --ignore-unknown ../in/given

t_begin "token records of the wrong shape"
while IFS='|' read -r status pattern text; do
    given "$text"
    each "$readers_of_records" "$status" "record 1: $pattern" ../in/given
done <<'LIST'
3|.*not a JSON object|42
3|.*not a JSON object|[1,2]
3|.*not a token record|{}
3|.*not a token record|{"messages":[]}
3|.*n: |{"akv":"tokens/1","id":"a","tokens":[1]}
3|.*tokens: |{"akv":"tokens/1","id":"a","n":1}
3|.*id: |{"akv":"tokens/1","n":1,"tokens":[1]}
3|.*n: says 2|{"akv":"tokens/1","id":"a","n":2,"tokens":[1]}
3|.*tokens\[0\]: |{"akv":"tokens/1","id":"a","n":1,"tokens":[-1]}
3|.*tokens\[0\]: |{"akv":"tokens/1","id":"a","n":1,"tokens":[1.0]}
3|.*tokens\[1\]: |{"akv":"tokens/1","id":"a","n":2,"tokens":[1,"2"]}
3|.*tokens\[0\]: |{"akv":"tokens/1","id":"a","n":1,"tokens":[4294967296]}
3|.*tok: |{"akv":"tokens/1","id":"a","tok":"00","n":1,"tokens":[1]}
3|.*keys|{"akv":"tokens/1","id":"a","n":1,"tokens":[1],"keys":["00"]}
3|.*spans\[0\]|{"akv":"tokens/1","id":"a","n":1,"tokens":[1],"spans":[{"kind":"x","from":0,"to":9}]}
3|.*anchors\[0\]|{"akv":"tokens/1","id":"a","n":1,"tokens":[1],"anchors":[{"name":"x","at":2}]}
3|.*temperature|{"akv":"tokens/1","id":"a","n":1,"tokens":[1],"gen":{"temperature":-5}}
4|.*tokens/2|{"akv":"tokens/2","id":"a","n":1,"tokens":[1]}
LIST
given '{"akv":"tokens/1","id":"a","n":1,"tokens":[99999999999999999999]}'
each "$readers_of_records" 3 'too big integer' ../in/given
t_begin "ids outside the vocabulary, another tokenizer, no tokens at all"
given '{"akv":"tokens/1","id":"a","n":1,"tokens":[384]}'
each "prefill restore gen bench" 3 'record 1: .*id 384 is outside the vocabulary of 384' ../in/given
given "{\"akv\":\"tokens/1\",\"id\":\"a\",\"tok\":\"$(printf '%064d' 0)\",\"n\":1,\"tokens\":[1]}"
each "prefill restore gen bench" 4 'record 1: .*tokenizer' ../in/given
given '{"akv":"tokens/1","id":"a","n":0,"tokens":[]}'
each "prefill gen bench" 3 'request a: has no tokens' ../in/given

t_begin "unknown fields of a token record are carried through"
given '{"akv":"tokens/1","id":"a","n":1,"tokens":[1],"frobnicate":[1,{"deep":null}]}'
t_run 0 akv-split ../in/given
t_out '"frobnicate":\[1,\{"deep":null\}\]'

t_begin "a context that the machine's memory cannot hold is refused with the numbers" tiny && {
    "$AKV_BUILD"/tests/mkmodel -o ../in/deep.gguf --dtype q8_0 --layers 64 --width 64 --heads 32 --kv-heads 32 --head-dim 64 --ff 32
    echo '{"akv":"tokens/1","id":"r","n":2,"tokens":[5,6]}' >../in/two.tok
    t_run 5 akv-gen -q -m ../in/deep.gguf --kv f32 -c 1048576 -n 1 ../in/two.tok
    t_err_line 'context of 1048576 tokens: its KV takes 1048576 MiB, this machine has [0-9]+ MiB of memory$'
    rm ../in/deep.gguf
}
t_begin "a prompt longer than the context is refused with the numbers"
n=$(jq .n ../in/chat.tok)
each "prefill gen" 3 "request r1: $n tokens: the context holds 16" ../in/chat.tok -c 16

t_begin "two bad requests among good ones: the good ones are answered, the status is the highest"
{
    cat ../in/chat.tok
    echo '{"akv":"tokens/1","id":"short","n":3,"tokens":[1]}'
    cat ../in/chat.tok
    echo '{"akv":"tokens/2","id":"late","n":1,"tokens":[1]}'
    cat ../in/chat.tok
} >../in/mixed.tok
for command in "akv-gen -n 2 --json" akv-split "akv-tokenize --decode --json"; do
    t_sh 4 "$command <../in/mixed.tok"
    t_is "$(wc -l <"$t_stdout")" 3 "lines on stdout of $command"
    t_is "$(wc -l <"$t_stderr")" 2 "lines on stderr of $command"
    t_err 'record 2: .*short'
    t_err 'record 4: .*late'
done
for command in akv-prefill "akv-restore -q -s ../in/store"; do
    t_sh 4 "$command ../in/mixed.tok"
    cp "$t_stdout" ../in/mixed.akv
    t_sh 0 "akv-gen -n 2 --json <../in/mixed.akv"
    t_is "$(wc -l <"$t_stdout")" 3 "requests answered after $command"
    t_sh 4 "$command -o ../in/mixed2.akv ../in/mixed.tok"
    t_same ../in/mixed.akv ../in/mixed2.akv
done
{
    cat ../in/chat.json
    echo '{"messages":[{"role":"user","content":4}]}'
    echo '{"prompt":"good"}'
    echo '{"prompt":"broken}'
    echo '{"prompt":"good too"}'
} >../in/mixed.json
t_sh 3 'akv-tokenize <../in/mixed.json'
t_is "$(wc -l <"$t_stdout")" 3 "records on stdout"
t_is "$(wc -l <"$t_stderr")" 2 "lines on stderr"
left_nothing

t_begin "operands that cannot be read: the others go on"
for name in tokenize split prefill restore gen inspect; do
    each $name 5 'nowhere: cannot open: No such file' /dev/null ../in/nowhere
    each $name 3 'directory: is a directory' /dev/null ../in/directory
    each $name 5 'mem: cannot read: ' /dev/null /proc/self/mem
done
for name in pin bench $readers_of_json; do each "$name" 3 'standard input: is a directory' ../in/directory; done
t_run 5 akv-gen -n 2 ../in/chat.tok ../in/nowhere ../in/chat.tok
t_is "$(grep -ac '' "$t_stdout")" 2 "replies"
bad 5 'nowhere: cannot open' /dev/null akv-bench turns ../in/nowhere
bad 5 'nowhere: cannot open' ../in/chat.tok akv-split --against ../in/nowhere
if [ "$(id -u)" -ne 0 ]; then
    cp ../in/chat.tok ../in/secret && chmod 000 ../in/secret
    bad 5 'secret: cannot open: Permission denied' /dev/null akv-gen ../in/secret
fi

t_begin "standard input, output and error that are closed"
closed_stdin() {
    local -n tool=$1
    t_run 5 timeout 20 "${tool[@]}" <&-
    t_err_line "^akv-$1: standard input: cannot read: "
    left_nothing
}
for name in $all_tools; do closed_stdin "$name"; done
for command in "akv-tokenize <../in/chat.json" "akv-split <../in/chat.tok" "akv-prefill <../in/chat.tok" "akv-gen -n 2 <../in/chat.tok" \
    "akv-restore -s ../in/store <../in/chat.tok" "akv-inspect <../in/chat.akv" "akv-inspect --raw <../in/chat.akv" \
    "akv-pin -s ../in/store --list" "akv-pin -s ../in/store --export pinned"; do
    t_sh 5 "timeout 20 $command >&-"
    t_err_line "^${command%% *}: standard output: cannot write: "
    t_sh 5 "timeout 20 $command >/dev/full"
    t_err_line "^${command%% *}: standard output: .*No space left on device"
    t_sh 5 "timeout 20 $command >&- 2>&-"
    case $command in *-o*) continue ;; esac
    t_sh 5 "timeout 20 $command -o /dev/full"
    t_err_line "^${command%% *}: /dev/full: .*No space left on device"
    t_sh 5 "timeout 20 $command -o ../in/nowhere/x"
    t_err_line "^${command%% *}: ../in/nowhere/x: cannot write: No such file or directory"
    t_sh 5 "timeout 20 $command -o ../in/directory"
    t_err_line "^${command%% *}: ../in/directory: cannot write: Is a directory"
    t_sh 2 "timeout 20 $command -o ''"
    t_err_line "^${command%% *}: --output: an empty file name"
    left_nothing
    # what is closed is not taken by a file of the tool's
    t_sh 0 "timeout 20 $command -o new 2>&-"
    t_sh 0 "timeout 20 $command -o new2 >&-"
    t_same new new2
    rm new new2
done

if t_begin "a binary stream is not written to a terminal" terminal; then
    for command in "akv-prefill ../in/chat.tok" "akv-restore -s ../in/store ../in/chat.tok" "akv-pin -s ../in/store --export pinned" \
        "akv-inspect --raw ../in/chat.akv"; do
        t_sh 2 "timeout 20 script -qec '$command' /dev/null </dev/null"
        t_out "^${command%% *}: .*terminal"
        t_is "$(wc -l <"$t_stdout")" 1 "lines on the terminal"
    done
    t_sh 0 "timeout 20 script -qec 'akv-gen -n 2 ../in/chat.tok' /dev/null </dev/null"
fi

t_begin "models that are none"
head -c 5000 "$TINY" >../in/cut.gguf
head -c 100000 "$TINY" >../in/cut-weights.gguf
echo text >../in/text.gguf
mkfifo ../in/fifo.gguf
"$AKV_BUILD/tests/mkmodel" --arch gemma9 -o ../in/arch.gguf
"$AKV_BUILD/tests/mkmodel" --vocab-only -o ../in/vocab.gguf
while read -r model status pattern; do
    for name in tokenize split prefill restore gen inspect bench; do
        input=../in/chat.tok
        extra=()
        case $name in
        tokenize) input=../in/chat.json ;;
        inspect) input=../in/chat.akv extra=(--text) ;;
        esac
        # the vocabulary alone is good enough for tools that compute nothing
        case $name-$model in *-cut-weights.gguf | *-arch.gguf | *-vocab.gguf)
            case $name in tokenize | split | inspect) continue ;; esac
            ;;
        esac
        each $name "$status" "$model: $pattern" $input -m "../in/$model" "${extra[@]}"
    done
done <<'LIST'
directory 3 is a directory
cut.gguf 3 .*truncated
cut-weights.gguf 3 .*tensor
text.gguf 3 not a GGUF file
fifo.gguf 3 not a regular file
empty 3 empty file
nowhere 5 cannot open: No such file
arch.gguf 4 architecture gemma9: not supported
vocab.gguf 3 tensor .*missing
LIST
for name in tokenize prefill restore gen bench; do each $name 2 'no model: give -m FILE or set AKV_MODEL' ../in/chat.tok -m ''; done
for model in arch.gguf vocab.gguf; do
    t_run 0 akv-tokenize -m ../in/$model ../in/chat.json
    t_out_is ../in/chat.tok
    t_run 0 akv-inspect ../in/$model
done

t_begin "a model where records are expected, a stream where text is"
each "prefill restore gen" 3 'is a model' "$TINY"
each "tokenize split pin bench" 3 'standard input: ' "$TINY"
each "tokenize split bench" 3 'standard input: ' ../in/chat.akv

t_begin "a stream for another model, or for another KV dtype"
"$AKV_BUILD/tests/mkmodel" --seed 7 -o ../in/other.gguf
each "prefill restore gen" 4 'record 1: weights is [0-9a-f]+, here it is [0-9a-f]+' ../in/chat.akv -m ../in/other.gguf
each "prefill restore gen" 4 'record 1: kv is f16, here it is f32' ../in/chat.akv --kv f32
bad 4 'chat.akv: record 1: weights is' ../in/chat.tok akv-prefill -m ../in/other.gguf --delta=../in/chat.akv

t_begin "values of options that are no such values, or too large"
while read -r tool options; do
    read -ra words <<<"$options"
    t_run 2 timeout 20 "$tool" "${words[@]}" <../in/chat.tok
    t_err_line "^$tool: "
    left_nothing
done <<'LIST'
akv-gen -c 0
akv-gen -c -1
akv-gen -c 1x
akv-gen -c 99999999999999999999
akv-gen -c 4294967297
akv-gen -@ 0
akv-gen -@ 99999
akv-gen -n -1
akv-gen -n 4294967296
akv-gen -n x
akv-gen --temp -1
akv-gen --temp nan
akv-gen --temp inf
akv-gen --temp 1e400
akv-gen --temp 0,5
akv-gen --top-p 2
akv-gen --top-k 99999999999
akv-gen --min-p -0.1
akv-gen --seed 99999999999999999999
akv-gen --logprobs 65 --json
akv-gen --logprobs 5
akv-gen --repeat-penalty 0
akv-gen --kv f8
akv-gen --stop
akv-gen -n
akv-gen --save
akv-gen --no-store --save -s store
akv-prefill --save
akv-split --at -1
akv-split --at 4294967296
akv-split --at 99999
akv-bench -r 0
akv-bench -p 1,x
akv-bench -p ,
akv-bench -t 0
akv-bench -o xml
akv-bench extra
akv-bench engine pp
akv-bench engine pp512@
akv-bench engine pp512@d0
akv-bench engine pp99999999999
akv-bench engine tg64 -
akv-bench turns -p 4
akv-bench kernels -p 4
akv-bench kernels -r 1 nothing
akv-tokenize --now yesterday
akv-tokenize --now 2026-02-30T00:00:00Z
akv-tokenize --raw --decode
akv-tokenize --raw --sort-tools
akv-tokenize --raw --template-name rag
akv-tokenize --decode --now 2026-02-03T00:00:00Z
akv-tokenize --json
akv-pin -s store
akv-pin -s store a b
akv-pin -s store -o x name
akv-pin -s ../in/store --rename pinned a/b
akv-pin -s ../in/store --root zz --remove pinned
akv-inspect --text --verify
akv-inspect --raw --quick
LIST
for name in a/b .hidden $'a\nb' "$(printf 'x%.0s' {1..201})" ''; do bad 2 'pin name' ../in/chat.akv akv-pin -s ../in/store "$name"; done
t_run 2 akv-pin -s ../in/store $'\xff' <../in/chat.akv
t_err 'it is not UTF-8$'
t_is "$(akv-pin -s ../in/store --list --json | jq -r .name)" "pinned" "the pins"

t_begin "control bytes in what is quoted stay on the line, escaped"
bad 5 'no\\x0asuch\\x1b\[31m: cannot open' /dev/null akv-gen $'no\nsuch\e[31m'
bad 2 '1\\x0a2: not a number' /dev/null akv-gen -n $'1\n2'
given '{"akv":"tokens/1","id":"a\nb\u001b[31m","n":2,"tokens":[1]}'
each "$readers_of_records" 3 'record 1: ' ../in/given
t_is "$(LC_ALL=C tr -d '\n -~' <"$t_stderr" | wc -c)" 0 "control bytes on stderr"

t_begin "a stream cut in its middle"
size=$(stat -c %s ../in/chat.akv)
for cut in 100 450 1000 $((size / 2)) $((size - 100)) $((size - 1)); do
    head -c "$cut" ../in/chat.akv >../in/cut.akv
    for command in "akv-pin -s ../in/store2 name" akv-inspect "akv-inspect --raw -o kept" "akv-gen -n 2 -o kept" "akv-prefill -o kept" \
        "akv-restore -q -s ../in/store -o kept"; do
        read -ra words <<<"$command"
        t_run 3 timeout 20 "${words[@]}" <../in/cut.akv
        t_err "^${words[0]}: standard input: record [0-9]+ .*truncated"
        t_is "$(wc -l <"$t_stderr")" 1 "lines on stderr"
        left_nothing
    done
    t_run 1 timeout 20 akv-inspect --verify ../in/cut.akv
    t_err_line '^akv-inspect: ../in/cut.akv: record [0-9]+ .*truncated'
done
t_run 0 akv-pin -s ../in/store2 --list
t_out_is /dev/null
t_is "$(find ../in/store2/tmp -type f)" "" "temporaries in the store"

# The reply is never lost because a save failed.
akv-gen -n 8 ../in/chat.tok >../in/reply
akv-prefill ../in/chat.tok >../in/whole.akv

# kept_reply PREFIX STORE: with a shell prefix, saving to the store fails and says so once; reply and stream are whole.
kept_reply() {
    t_sh 5 "$1 akv-gen -n 8 -s '$2' --save ../in/chat.tok"
    t_out_is ../in/reply
    t_err '^akv-gen: '
    t_is "$(wc -l <"$t_stderr")" 1 "lines on stderr"
    t_sh 5 "$1 akv-gen -n 8 -s '$2' --save -o ../in/reply2 ../in/chat.tok"
    t_same ../in/reply ../in/reply2
    t_sh 5 "$1 akv-gen -n 8 -s '$2' --save --json ../in/chat.tok ../in/chat.tok"
    t_is "$(wc -l <"$t_stdout")" 2 "replies"
    t_is "$(wc -l <"$t_stderr")" 1 "lines on stderr"
    t_sh 5 "($1 akv-prefill -s '$2' --save ../in/chat.tok) | cat"
    cp "$t_stdout" ../in/whole2.akv
    t_same ../in/whole.akv ../in/whole2.akv
    t_is "$(wc -l <"$t_stderr")" 1 "lines on stderr"
    rm -f ../in/reply2 ../in/whole2.akv
    left_nothing
}

t_begin "D4 the reply is printed when the store is a file"
kept_reply '' ../in/chat.json
t_begin "D4 the reply is printed when a directory of the store is a file"
akv-pin -q -s ../in/broken x <../in/chat.akv
rm -r ../in/broken/objects ../in/broken/tmp && touch ../in/broken/objects ../in/broken/tmp
kept_reply '' ../in/broken
t_begin "D4 the reply is printed when pages are over the limit of file size; no temporary stays"
kept_reply 'ulimit -f 8;' ../in/limited
t_is "$(find ../in/limited/tmp ../in/limited/objects -type f)" "" "files in the store"
t_sh 5 'ulimit -f 8; akv-prefill -o kept ../in/chat.tok'
t_err_line '^akv-prefill: kept: .*File too large'
left_nothing
t_sh 5 'ulimit -f 8; akv-pin -s ../in/limited name <../in/chat.akv'
t_err_line '^akv-pin: .*File too large'
t_is "$(akv-pin -s ../in/limited --list)" "" "the pins"
t_is "$(find ../in/limited/tmp ../in/limited/objects -type f)" "" "files in the store"
t_begin "and the next save, with room, is whole"
t_run 0 akv-gen -n 8 -s ../in/limited --save ../in/chat.tok
t_out_is ../in/reply
t_run 0 akv-gen -n 8 -s ../in/limited --json ../in/chat.tok
t_is "$(jq .usage.prompt_tokens_details.cached_tokens "$t_stdout")" 64 "cached_tokens"

can_mount=unshare
unshare -rm mount -t tmpfs none ../in/directory 2>/dev/null || can_mount=right-to-mount
if t_begin "D4 the reply is printed when the disk is full" $can_mount; then
    full='mount -t tmpfs -o size=48k none ../in/directory && akv-pin -q -s ../in/directory/store x <../in/small.akv &&'
    jq -c '.tokens = .tokens[:4] | .n = 4 | del(.spans, .anchors, .tok)' ../in/chat.tok >../in/small.tok
    akv-prefill -o ../in/small.akv ../in/small.tok
    t_sh 5 "unshare -rm bash -c '$full akv-gen -n 8 -s ../in/directory/store --save ../in/chat.tok; status=\$?
        akv-pin -s ../in/directory/store --list >&2; find ../in/directory/store/tmp -type f >&2; exit \$status'"
    t_out_is ../in/reply
    t_err 'akv-gen: .*No space left on device'
    t_err '^x  .*4 tokens'
    t_is "$(wc -l <"$t_stderr")" 2 "lines on stderr"
fi

t_begin "statistics that cannot be written are said before any work"
t_run 5 akv-gen -n 8 --stats=../in/nowhere/stats ../in/chat.tok ../in/chat.tok
t_err_line '^akv-gen: ../in/nowhere/stats: cannot write'
left_nothing
t_end
