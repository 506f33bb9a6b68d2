"""The agent's operations on a node: install, upgrade, rollback, uninstall, status. Python 3.8."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import zlib
from typing import BinaryIO

from provisioning.agent.onnode.files import InstallError, document, empty, gone, put, unknown_rules
from provisioning.agent.onnode.machine import SWAP
from provisioning.agent.onnode.starts import EXPORTER, SERVICE, TIMER, Starts


class AgentOperations(Starts):
    """Each says in a line what became of it, or raises No."""

    def install(self) -> str:
        dry, version = self.request["dry"], self.digest[:12]
        self.able()
        if not self.alone(make=self.request["do"] == "install") or (
            self.request["do"] == "upgrade" and not self.linked("current")):
            if self.request["do"] == "upgrade":
                raise InstallError("no agent is installed here; try: muster agent install")
            return "would install %s" % version
        before, earlier = self.linked("current"), self.linked("previous")
        if dry:
            same = before == version and self.is_whole(version)
            self.report["same"] = same
            if not self.systemd():
                now = document(os.path.join(self.base, str(before), self.request["names"][2]))
                self.report.update(cron=True, period=now.get("period") if isinstance(now, dict) else None)
            return "nothing to do, %s is in use" % version if same else "would install %s in place of %s" % (
                version, before or "none")
        self.sweep()
        if not self.is_whole(version):
            self.fill(version)
            self.changed(version)
        if before != version:
            if self.is_whole(before):
                self.link("previous", str(before))
            self.link("current", version)
            self.changed("current")
        try:
            if self.request["helper"]:
                self.helper(*self.request["helper"])
            self.started()
        except (InstallError, OSError) as error:
            if before == version or not self.is_whole(before):
                raise
            # What starts the agent names no version: it starts the one before, as it did.
            self.link("current", str(before))
            if earlier is not None:
                self.link("previous", earlier)
            raise InstallError("%s; so %s stays in use" % (error, before)) from None
        if not self.report["changed"]:
            return "nothing to do, %s is in use" % version
        if before == version:
            return "%s was in use; repaired: %s" % (version, ", ".join(self.report["changed"]))
        return "%s in use%s" % (version, ", before it %s" % before if before else "")

    def helper(self, path: str, digest: str) -> None:
        """Afterwards the root-owned helper lies there."""
        there = self.root + path
        try:
            with open(there, "rb") as file:
                if hashlib.sha256(file.read()).hexdigest() == digest:
                    return
        except OSError:
            pass
        data = self.want("helper")
        if hashlib.sha256(data).hexdigest() != digest:
            raise InstallError("the helper did not arrive whole")
        os.makedirs(os.path.dirname(there), 0o755, exist_ok=True)
        if put(there, data, 0o755):
            self.changed(path)

    def rollback(self) -> str:
        if not self.alone(make=False) or not self.linked("current"):
            raise InstallError("no agent is installed here")
        now, before = self.linked("current"), self.linked("previous")
        if before is None or before == now:
            raise InstallError("there is no version before %s here" % now)
        if not self.is_whole(before):
            raise InstallError("the previous version, %s, is damaged; %s stays in use" % (before, now))
        self.able()
        if self.request["dry"]:
            return "would go back to %s from %s" % (before, now)
        self.swap()
        self.changed("current")
        self.started()
        return "%s in use again, instead of %s" % (before, now)

    def uninstall(self) -> str:
        there = self.alone(make=False)
        state = self.root + self.request["state"]
        paths = [self.root + path
                 for path in (*self.request["units"], self.request["cron"][0], self.request["exporter"][0])]
        found = there or os.path.isdir(state) or any(map(os.path.lexists, paths))
        if not found:
            return "nothing to do, no agent is installed here"
        if self.request["dry"]:
            return "would remove %s" % (self.linked("current") or "what is left of an agent")
        exported = self.exported()
        self.unserved()
        if self.systemd():
            if os.path.lexists(paths[1]):
                self.systemctl("disable", "--now", TIMER)
            if os.path.lexists(paths[0]):
                self.systemctl("stop", SERVICE)
        for path in paths:
            gone(path)
            gone(os.path.join(os.path.dirname(path), ".%s.new" % os.path.basename(path)))
        if self.systemd():
            self.systemctl("daemon-reload")
            for unit in (TIMER, SERVICE, EXPORTER):
                try:
                    self.systemctl("reset-failed", unit)
                except InstallError:
                    pass    # it had not failed
        for folder in {*self.request["textfiles"], exported} - {None}:
            self.unexport(folder)
        if not self.request["keep_state"]:
            gone(state)
            empty(os.path.dirname(state))
        self.forget()
        if there:
            gone(self.base)
        self.changed("uninstalled")
        return "nothing is left%s" % (
            " but %s" % self.request["state"] if self.request["keep_state"] else ", its state went too")

    def forget(self) -> None:
        """Removes the run folder, unless it names a process of a look that is still there."""
        run = self.root + "/run/muster"
        gone(self.root + self.request["note"])
        for name in os.listdir(run) if os.path.isdir(run) else ():
            if name.startswith("child-") and not os.path.exists("/proc/" + name[6:]):
                gone(os.path.join(run, name))
        empty(run)

    def status(self) -> str:
        previous = self.linked(SWAP)        # where changing places was cut short before it was done
        if previous is None or previous == self.linked("current"):
            previous = self.linked("previous")
        self.report.update(current=self.linked("current"), previous=previous, now=time.time(), whole=None,
                           timer=None, exporter=None)
        current = self.report["current"]
        if current is None:
            return "no agent is installed here"
        self.report["whole"] = self.is_whole(current)
        self.report["installed"] = document(os.path.join(self.base, current, self.request["names"][2]))
        if previous is not None:
            self.report["before"] = document(os.path.join(self.base, previous, self.request["names"][2]))
        result = os.path.join(self.root + self.request["state"], self.request["result"])
        self.report["result"] = document(result)
        self.report["unknown"] = unknown_rules(result)
        self.report["fault"] = document(self.root + self.request["note"])
        if self.systemd():
            timer = self.shown(TIMER, "ActiveState", "UnitFileState")
            run = self.shown(SERVICE, "ActiveState", "Result", "ExecMainStatus")
            self.report["timer"] = "%s, %s" % (timer.get("ActiveState"), timer.get("UnitFileState"))
            self.report["service"] = "%s, %s" % (run.get("ActiveState"), run.get("Result"))
            if os.path.lexists(self.root + self.request["exporter"][0]):
                serving = self.shown(EXPORTER, "ActiveState", "UnitFileState")
                self.report["exporter"] = "%s, %s" % (serving.get("ActiveState"),
                                                      serving.get("UnitFileState"))
        else:
            self.report["timer"] = "cron" if os.path.exists(self.root + self.request["cron"][0]) else "none"
        if self.request["hurry"]:
            self.hurry(current)
        return "in use: %s" % current

    def hurry(self, current: str) -> None:
        """Has systemd run the agent now, if it has no result of the version in use; cron has its own time."""
        result = self.report["result"]
        if (self.systemd() and not os.geteuid()
                and not (isinstance(result, dict) and result.get("bundle") == current)):
            try:
                self.systemctl("start", "--no-block", SERVICE)
            except InstallError as error:
                self.report["hurry"] = str(error)


def main(nonce: str, request: bytes, source: BinaryIO) -> None:
    """Does what is asked, and answers in one frame."""
    os.umask(0o022)
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    # Its own three words follow those of its entry in the inventory.
    machine = AgentOperations(nonce, json.loads(request), sys.argv[-3:], source)
    do: str = machine.request["do"]
    try:
        if os.geteuid() and not machine.root and do != "status":
            raise InstallError("this needs root here: log in as root, or go through sudo with --become or "
                               "`privilege: become` in the inventory")
        report = machine.install() if do in ("install", "upgrade") else getattr(machine, do)()
        machine.report.update(ok=True, message=report)
    except InstallError as error:
        machine.report.update(ok=False, message=str(error))
    except (OSError, ValueError, zlib.error) as error:
        machine.report.update(ok=False, message="%s: %s" % (type(error).__name__, error))
    machine.leave()     # who has the answer may begin the next
    body = zlib.compress(json.dumps(machine.report).encode())
    sys.stdout.write("muster:%s:frame %d %s\n" % (nonce, len(body), hashlib.sha256(body).hexdigest()))
    sys.stdout.flush()
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
