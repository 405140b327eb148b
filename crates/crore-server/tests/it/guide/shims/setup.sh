# Begins the script of a page: a private loopback, host names and directories. A failed command ends the page.
set -eEo pipefail
ip link set lo up
echo '127.0.0.1 localhost jobs.example.com front' > ../hosts
mount --bind ../hosts /etc/hosts
mount -t tmpfs tmpfs /var/lib
trap 'echo "$at: exit code $?: $BASH_COMMAND" >&2' ERR
