# Weights are used from the mapped file: never copied, shared by processes, and no matter how large they are.
. "$(dirname "$0")/../lib.sh"

t_needs tiny plain
# 62 MB of weights
"$AKV_BUILD/tests/mkmodel" -o big.gguf --dtype f32 --layers 4 --width 512 --heads 8 --kv-heads 2 --ff 2048
ids=$(seq -s , 1 90)
echo '{"akv":"tokens/1","id":"r","n":90,"tokens":['"$ids"']}' >a.tok

t_begin "a model larger than the memory that a process may have runs: it reads the mapping"
akv-prefill -q -c 256 -@ 2 -m big.gguf a.tok >want
t_sh 0 'ulimit -d 40000 && akv-prefill -q -c 256 -@ 2 -m big.gguf a.tok' # kB of private memory
t_out_is want
t_sh 5 'ulimit -d 10000 && akv-prefill -q -c 256 -@ 2 -m big.gguf a.tok' # the limit works
t_err_line ': .*memory'

t_begin "no page goes out that was computed after the model was written to"
ids=$(jq -nc '[range(1900) | . * 7 % 300]')
echo '{"akv":"tokens/1","id":"l","n":1900,"tokens":'"$ids"'}' >long.tok
akv-prefill -q -c 2048 -m big.gguf -o long.akv long.tok
cp big.gguf changed.gguf
mkfifo out
akv-prefill -q -c 2048 -m changed.gguf long.tok >out 2>err & # the pipe takes some of 30 pages of 128 KiB
(
    head -c 100000
    sleep 1
    head -c 1000000 /dev/zero | dd of=changed.gguf bs=1M seek=20 conv=notrunc status=none
    cat
) <out >got
wait $!
t_is $? 3 "exit status"
t_grep err stderr '^akv-prefill: .*changed\.gguf: changed while in use$'
cmp -n "$(stat -c %s got)" got long.akv >/dev/null || t_fail "a page differs from those of the model as it was"
[ "$(stat -c %s got)" -lt "$(stat -c %s long.akv)" ] || t_fail "all pages were written"

# about PID [NAME]: the kB of its mapping of the weights that are resident, shared with another process, and copied.
about() {
    awk -v name="${2:-big}" '$NF ~ name ".*[.]gguf$" { on = 1 } /^VmFlags/ { on = 0 } !on { next }
        /^Rss/ { rss += $2 } /^Shared/ { shared += $2 } /^Anonymous/ { copied += $2 } END { print rss + 0, shared + 0, copied + 0 }' \
        "/proc/$1/smaps"
}

t_begin "two processes share one copy of the weights, and neither has one of its own"
mkfifo one two
exec 7<>one 8<>two
akv-gen -q -c 256 -n 1 -m big.gguf <one >one.out &
first=$!
akv-gen -q -c 256 -n 1 -m big.gguf <two >two.out &
second=$!
cat a.tok >&7
cat a.tok >&8
for ((i = 0; i < 600; i++)); do
    [ ! -s one.out ] || [ ! -s two.out ] || break
    sleep 0.1
done
read -r rss shared copied < <(about $first)
read -r rss2 shared2 copied2 < <(about $second)
if [ "$rss" -lt 30000 ] || [ "$rss2" -lt 30000 ]; then t_fail "resident are only $rss and $rss2 kB"; fi
if [ "$shared" -lt $((rss * 9 / 10)) ] || [ "$shared2" -lt $((rss2 * 9 / 10)) ]; then t_fail "of $rss and $rss2 kB only $shared and $shared2 are shared"; fi
t_is "$copied $copied2" "0 0" "what was copied, kB"
kill $first $second
wait $first $second 2>/dev/null

if t_begin "parts that are over a GiB together are not mapped at once, like a file of that size" "$AKV_BUILD/tests/splitmodel"; then
    "$AKV_BUILD/tests/splitmodel" big.gguf part 3
    truncate -s 400M part-*.gguf # what is behind the weights is never touched
    akv-gen -q -c 256 -n 1 -m part-00001-of-00003.gguf <one >split.out &
    first=$!
    cat a.tok >&7
    for ((i = 0; i < 600; i++)); do
        [ ! -s split.out ] || break
        sleep 0.1
    done
    read -r rss shared copied < <(about $first part)
    [ "$rss" -gt 30000 ] || t_fail "resident are only $rss kB"
    [ "$rss" -lt 200000 ] || t_fail "resident are $rss kB"
    kill $first
    wait $first 2>/dev/null
fi
t_end
