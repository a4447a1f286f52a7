#!/bin/sh
# Shares for jobs of Flux: the prolog and, with the argument "end", the epilog of the perilog plugin on rank 0, which
# never fail. An example, tested with a stand-in for Flux only. In the broker's configuration:
#
#   [job-manager]
#   plugins = [{ load = "perilog.so" }]
#   [job-manager.prolog]
#   command = ["/etc/flux/vpfs.sh"]
#   [job-manager.epilog]
#   command = ["/etc/flux/vpfs.sh", "end"]
#
# vpfs.toml has [[owner]] name = "flux"; the host has the file of its token, and the key of [peers].
name=$(flux job id --to=dec "$FLUX_JOB_ID")
owner="--owner flux --token /etc/vpfs/flux.token --remote"
if [ "$1" = end ]; then
    timeout 5 vpfs app rm "$name" $owner
else
    nodes=$(flux job info "$FLUX_JOB_ID" R | jq -r '.execution.nodelist | join(",")')
    timeout 5 vpfs app set "$name" --clients "$nodes" --for 1d $owner
fi
exit 0
