# Every tool: help, version, and the ways to call it wrongly.
. "$(dirname "$0")/../lib.sh"
version=$(cat "$TOP/VERSION")

for tool in $TOOLS; do
    t_begin "$tool -h and --help print the usage on stdout"
    t_run 0 "$tool" -h
    t_out "^[Uu]sage: $tool"
    cp "$t_stdout" help
    [ ! -s "$t_stderr" ] || t_fail "stderr is not empty"
    t_run 0 "$tool" --help
    t_out_is help

    t_begin "$tool -V and --version name the tool and the version"
    t_run 0 "$tool" -V
    t_out "^$tool ${version//./\\.}"
    t_run 0 "$tool" --version
    t_out "^$tool ${version//./\\.}"

    t_begin "$tool refuses an unknown option with one line and status 2"
    t_run 2 "$tool" --no-such-option
    t_err_line "^$tool: .*no-such-option"

    t_begin "$tool speaks the same in another locale"
    t_run 0 env LC_ALL=de_DE.UTF-8 LANG=tr_TR.UTF-8 "$tool" -h
    t_out_is help

    t_begin "$tool reports a stdout that is full"
    t_sh 5 "$tool -h >/dev/full"
    t_err "^$tool: "
done
t_begin "an empty AKV_MODEL or AKV_STORE is none"
echo '{"akv":"tokens/1","id":"r1","tok":"'"$(printf 'a%.0s' {1..64})"'","n":1,"tokens":[1],"spans":[],"anchors":[]}' >one.tok
t_run 0 env AKV_MODEL= AKV_STORE= akv-split one.tok
t_out '"id":"r1"'
t_run 2 env AKV_MODEL= akv-gen one.tok
t_err_line '^akv-gen: no model: give -m FILE or set AKV_MODEL$'
t_end
