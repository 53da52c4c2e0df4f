# SPDX-License-Identifier: GPL-2.0-or-later
# Completion of fakernic-lab in bash.

_fakernic_lab()
{
    local cur prev words cword
    _init_completion || return
    local machines="-n --arch --image --kernel --initrd --append --root --cpus --cpu-nice
        --vfs --memory --mount --env --qemu --qemu-arg --out --link --netdev --first --mtu --loss --duplicate
        --reorder --corrupt --delay --seed --fault --timeline --pcap --boot -v --verbose --help"
    local i action="" offered=""

    for ((i = 1; i < cword; i++)); do
        [[ ${words[i]} == -- ]] && { _command_offset $((i + 1)); return; }
        [[ -z $action && ${words[i]} != -* ]] && action=${words[i]}
    done
    case $prev in
    --image | --initrd | --qemu | --pcap | --junit | --kernel) _filedir; return ;;
    --out | --mount | --root) _filedir -d; return ;;
    --link) COMPREPLY=($(compgen -W "netdev shared" -- "$cur")); return ;;
    --until) COMPREPLY=($(compgen -W "node1 node2 node3" -- "$cur")); return ;;
    --expect) COMPREPLY=($(compgen -W "oom tasks crash" -- "$cur")); return ;;
    --arch) COMPREPLY=($(compgen -W "x86_64 arm64 riscv64" -- "$cur")); return ;;
    --ready) COMPREPLY=($(compgen -W "auto now cm" -- "$cur")); return ;;
    esac
    case $action in
    "") offered="run up exec shell ssh console show fault snapshot migrate timeline doctor status down --help --version" ;;
    run) offered="$machines --ready --until --timeout -t --tty --junit --expect --" ;;
    up) offered=$machines ;;
    exec) offered="node1 node2 node3 all --timeout --expect --help --" ;;
    show)
        if [[ ${words[cword - 1]} == show ]]; then
            offered="node1 node2 node3"
        else
            offered="state qps cqs srqs eqs keys gids flows counters sq rq srq
                cq eq faults recorder recorder-now --json --device --from --count --help"
        fi ;;
    timeline) offered="--out --lost --partial --help"; [[ $cur == -* ]] || _filedir ;;
    migrate | shell | ssh | console) offered="node1 node2 node3 --help" ;;
    snapshot) offered="save load --help" ;;
    fault) offered="node1 node2 node3 wire --help" ;;
    *) offered="--help" ;;
    esac
    COMPREPLY=($(compgen -W "$offered" -- "$cur"))
}

complete -F _fakernic_lab fakernic-lab
