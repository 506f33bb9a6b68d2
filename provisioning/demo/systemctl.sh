[ "$1" = list-units ] && exec cat "$MUSTER_ROOT/.muster/units"
[ "$1" = show ] || { echo "systemctl: only show and list-units are simulated" >&2; exit 1; }
gap=
for unit in "$@"; do
    case "$unit" in *.service) printf %s "$gap"; cat "$MUSTER_ROOT/.muster/${unit%.service}.unit"; gap='
';; esac
done
