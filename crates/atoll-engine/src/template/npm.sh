#!/bin/sh
# `npm` as a command of the sandbox. A sandbox has no network, and npm would wait for more than a minute before it fails.
# So an installation is answered at once; every other command is run by the npm of the machine or of the image, offline.
set -f

run_npm() {
    export npm_config_offline=true npm_config_fetch_retries=0 npm_config_update_notifier=false
    IFS=:
    for directory in $PATH; do
        [ "$directory" != /opt/atoll/kernel/bin ] && [ -x "$directory/npm" ] && exec "$directory/npm" "$@"
    done
    echo 'npm: command not found' >&2
    exit 127
}

refuse() {
    echo "ERROR: $1, and npm packages cannot be installed inside a sandbox." >&2
    refused=1
}

command=
for word in "$@"; do
    case $word in
        -*) ;;
        *) command=$word && break ;;
    esac
done
case $command in
    install | i | in | add | ci | clean-install | install-test | it) ;;
    *) run_npm "$@" ;;
esac

count=0 refused=0
for word in "$@"; do
    case $word in
        -*) continue ;;
    esac
    count=$((count + 1))
    [ "$count" -eq 1 ] || [ -e "node_modules/$word/package.json" ] || refuse "\`$word\` is not installed"
done
[ "$count" -gt 1 ] || refuse "\`npm $command\` needs the network"
[ "$refused" -eq 0 ] && exit 0
echo 'Use a template of an image that includes the packages: `atoll template build NAME --from IMAGE` on the host.' >&2
exit 1
