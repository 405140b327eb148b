# Runs one server in directory $1 and outlives its owner. When standard input closes, because the owner
# released it or ended in any way (SIGKILL included), stops the server with signal $2 and removes the
# directory. The other arguments are the server's command.
#
# The owner starts this shell in its own process group, so that a signal to the owner's group (Ctrl-C, a test
# runner's timeout) does not end the cleanup.
dir=$1 signal=$2
shift 2
cd "$dir" || exit 1

# A new session makes the server's processes one group that can be signalled together. If this shell is
# killed, the parent-death signal stops the server; it follows the thread that forked, and a shell has only
# one.
setsid setpriv --pdeathsig KILL "$@" </dev/null >log 2>&1 &
server=$!
trap '' HUP INT TERM
echo "$server"
exec >/dev/null 2>&1

running() {
    read -r _ _ state _ <"/proc/$server/stat" && [ "$state" != Z ]
}

read -r _

# Just after the fork the group may not exist yet: signal both the group and the process. A stopped process
# receives only KILL until it continues. (`-s`, because with `-KILL` some shells take the `--` for a process.)
kill -s "$signal" -- "-$server" "$server"
kill -s CONT -- "-$server" "$server"
waits=0
while running && [ "$waits" -lt 500 ]; do
    sleep 0.01
    waits=$((waits + 1))
done
kill -s KILL -- "-$server" "$server"
wait

# Children of a killed server may write a last file while the directory is removed.
cd /
rm -rf "$dir" || { sleep 0.5; rm -rf "$dir"; }
