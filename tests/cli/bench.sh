# akv-bench: the engine's tests and the kernels.
. "$(dirname "$0")/../lib.sh"
t_needs tiny jq
export AKV_MODEL=$TINY

rows() {
    jq -c "$1" "$t_stdout"
}

t_begin "tests by name, and every combination of lists, give the same rows"
t_run 0 akv-bench -o jsonl -r 1 -p 32,48 -n 2 -d 0,16 -t 1,2
rows '[.n_threads, .n_prompt, .n_gen, .n_depth]' >lists
t_run 0 akv-bench engine -o jsonl -r 1 -t 1,2 pp32 pp48 tg2 pp32@d16 'pp48 @ d16' tg2@d16
rows '[.n_threads, .n_prompt, .n_gen, .n_depth]' >names
t_is "$(wc -l <names)" 12 "the rows"
t_same lists names

t_begin "rows hold a sample for each run, on the clock and of the processors"
t_run 0 akv-bench -o json -r 3 engine pp32 tg2
t_is "$(rows '[.[] | (.samples_ns, .samples_cpu_ns | length)]')" "[3,3,3,3]" "samples"
t_is "$(rows 'all(.[]; .median_ts > 0 and .avg_ns > 0 and .gops > 0 and .gbs > 0 and (.samples_ns + .samples_cpu_ns | all(. > 0)))')" true "all are positive"

t_begin "a test that is asked for on standard input is answered before the next is read"
mkfifo ask
akv-bench -o jsonl -r 1 engine - <ask >answers &
pid=$!
exec 3>ask
for test in pp32 tg2@d32 pp16; do
    echo "$test" >&3
    while [ "$(wc -l <answers)" -le "${asked:=0}" ] && kill -0 $pid 2>/dev/null; do sleep 0.02; done
    asked=$((asked + 1))
done
exec 3>&-
wait $pid || t_fail "it failed"
t_is "$(jq -c '[.n_prompt, .n_gen, .n_depth]' answers | tr '\n' ' ')" "[32,0,0] [0,2,32] [16,0,0] " "the answers"
t_run 3 akv-bench engine - </dev/null
t_err_line 'empty input'

t_begin "kernels: each table's results are those of the scalar one"
t_run 0 akv-bench kernels -r 1 -o jsonl Q4_1 add quantise
t_is "$(rows .equal | sort -u)" true "equal"
t_is "$(rows 'select(.table == "scalar") | [.op, .type]' | tr '\n' ' ')" '["mul","Q4_1"] ["mul","Q4_1"] ["dequant","Q4_1"] ["quantise",""] ["add",""] ' "the rows"
t_is "$(rows 'select(.median_ns >= .min_ns and .min_ns > 0 and .gbs > 0)' | wc -l)" "$(rows . | wc -l)" "rows with times"
t_run 0 env -u AKV_MODEL akv-bench kernels -r 1 add
t_out '^\| add \|  \| 4096 \| scalar \| .* \| equal \|$'

t_begin "restore: both codecs, whole pages, and what it compares with"
t_run 0 akv-bench restore -o jsonl -r 2 -p 100 -t 1,2
t_is "$(rows '[.codec, .n_threads, .n_tokens]' | tr '\n' ' ')" '["planes",1,128] ["planes",2,128] ["raw",1,128] ["raw",2,128] ' "the rows"
t_is "$(rows 'select(.raw_bytes > 0 and .coded_bytes > 0 and .restore_ns > 0 and .plain_ns > 0 and .share > 0)' | wc -l)" 4 "rows with figures"
t_is "$(rows 'select(.codec == "raw" and .coded_bytes < .raw_bytes)')" "" "raw pages that shrank"
t_run 2 akv-bench restore -d 5
t_err_line 'not an option of restore'
t_end
