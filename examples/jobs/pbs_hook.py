# Shares for jobs of PBS Professional or OpenPBS: a hook that runs on the server's host, and never refuses a job.
# An example, tested with a stand-in for PBS only: adapt the weights.
#
#   qmgr -c "create hook vpfs event='runjob,endjob'"
#   qmgr -c "set hook vpfs fail_action=none"
#   qmgr -c "set hook vpfs alarm=10"
#   qmgr -c "import hook vpfs application/x-python default pbs_hook.py"
#
# vpfs.toml has [[owner]] name = "pbs"; the host has the file of its token, and the key of [peers].
import re
import subprocess

import pbs

WEIGHTS = {"urgent": 8, "workq": 1}


def vpfs(*args):
    owner = ["--owner", "pbs", "--token", "/etc/vpfs/pbs.token", "--remote"]
    subprocess.run(["/usr/bin/vpfs", "app", *args, *owner], timeout=5, check=False)


event = pbs.event()
try:
    job = event.job
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", job.id)[:50]
    if event.type == pbs.RUNJOB:
        # (c1[0]:ncpus=8+c1[1]:ncpus=4)+(c2:ncpus=1) is on c1 and c2.
        nodes = sorted(set(re.findall(r"[(+]([^:()+\[]+)", str(job.exec_vnode))))
        walltime = max(int(job.Resource_List["walltime"] or 86400), 60)
        weight = str(WEIGHTS.get(str(job.queue.name), 1))
        vpfs("set", name, "--weight", weight, "--clients", ",".join(nodes), "--for", "%ds" % walltime)
    else:
        vpfs("rm", name)
except Exception as error:
    pbs.logmsg(pbs.LOG_WARNING, "vpfs: %s" % error)
event.accept()
