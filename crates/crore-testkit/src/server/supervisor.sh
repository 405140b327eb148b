# Runs one server in directory $1 and outlives whoever asked for it: when standard input closes,
# because the owner let go or is gone in any way, SIGKILL included, the server is stopped with
# signal $2 and the directory removed. The rest of the arguments is the server's command.
#
# The owner gives this shell a process group of its own, so that a signal to the owner's group
# (Ctrl-C, a test runner's time limit) does not end the one who is to clean up.
dir=$1 signal=$2
shift 2
cd "$dir" || exit 1

# A session of its own makes the server's processes one group that can be signalled whole. Should
# this shell be killed all the same, the parent-death signal takes the server along; it follows the
# thread that forked, and a shell has just one.
setsid setpriv --pdeathsig KILL "$@" </dev/null >log 2>&1 &
server=$!
trap '' HUP INT TERM
echo "$server"
exec >/dev/null 2>&1

running() {
    read -r _ _ state _ <"/proc/$server/stat" && [ "$state" != Z ]
}

read -r _

# A moment after the fork the group may not exist yet: hence both the group and the process. A
# stopped process hears nothing but KILL until it continues. (`-s`, because with `-KILL` some shells
# take the `--` for a process.)
kill -s "$signal" -- "-$server" "$server"
kill -s CONT -- "-$server" "$server"
waits=0
while running && [ "$waits" -lt 500 ]; do
    sleep 0.01
    waits=$((waits + 1))
done
kill -s KILL -- "-$server" "$server"
wait

# Children of a killed server may write a last file while the directory goes.
cd /
rm -rf "$dir" || { sleep 0.5; rm -rf "$dir"; }
