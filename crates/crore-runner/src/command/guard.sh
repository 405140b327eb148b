# Kills all processes of a host after it has ended in any way: its end of the standard input closes then. $1
# is the number of the host in its marks.
trap '' HUP INT QUIT TERM
while read -r _; do :; done

is_marked() {
    read -r stat <"/proc/$1/stat" || return 1
    case ${stat##*") "} in
    Z*) return 1 ;; # A zombie.
    esac
    while read -r _ name unit limit _; do
        # Only marks have this many digits.
        case "$name $unit $limit" in
        "realtime timeout "[4-9]??????????????????) [ "$((limit >> 32))" = "$2" ] && return 0 ;;
        esac
    done <"/proc/$1/limits"
    tr '\0' '\n' <"/proc/$1/environ" | grep -q "^CRORE_RUN=$2-"
}

rounds=0
while [ "$rounds" -lt 100 ]; do
    found=
    for process in /proc/[0-9]*; do
        process=${process#/proc/}
        if is_marked "$process" "$1"; then
            kill -KILL "-$process"
            kill -KILL "$process" && found=yes
        fi
    done
    [ -n "$found" ] || exit 0
    rounds=$((rounds + 1))
done
