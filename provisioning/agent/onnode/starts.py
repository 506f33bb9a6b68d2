"""What starts the agent on the node, and its server: systemd's units, or a line for cron. Python 3.8."""

from __future__ import annotations

import os
import re
import sys

from provisioning.agent.onnode.files import InstallError, gone, put
from provisioning.agent.onnode.machine import PLAIN, AgentMachine

TIMER, SERVICE, EXPORTER = "muster-agent.timer", "muster-agent.service", "muster-exporter.service"


class Starts(AgentMachine):
    """The units of a machine."""

    def able(self) -> None:
        """Raises No, before anything is changed, where what is asked cannot be here."""
        self.textfile()
        if self.request["exporter"][1] is None:
            return
        if not self.systemd():
            raise InstallError("--exporter makes a unit of systemd, which is not here; %s starts it by hand"
                               % " ".join(self.request["exporting"][2:]))
        if sys.version_info < (3, 10):
            raise InstallError("--exporter needs Python 3.10 here, and this is %d.%d; name another in the "
                               "inventory (python:)" % sys.version_info[:2])

    def textfile(self) -> str | None:
        """node_exporter's folder."""
        named = self.request["textfile"]
        if named is not None:
            if named and not os.path.isdir(self.root + named):
                raise InstallError("there is no folder %s here for --textfile" % named)
            return named or None
        return next((path for path in self.request["textfiles"] if os.path.isdir(self.root + path)), None)

    def exported(self) -> str | None:
        """node_exporter's folder into which what is installed here writes."""
        for path in (*self.request["units"], self.request["cron"][0]):
            try:
                with open(self.root + path, "rb") as file:
                    found = re.search(rb" --textfile (\S+)", file.read(1 << 16))
            except OSError:
                continue
            if found:
                return found.group(1).decode("ascii", "replace")
        return None

    def unexport(self, folder: str) -> None:
        """Afterwards node_exporter finds nothing of ours in its folder."""
        for name in (self.request["metrics"], self.request["metrics"] + ".new"):
            gone(os.path.join(self.root + folder, name))

    def filled(self, text: str) -> bytes:
        """A unit's or cron's text for this machine: with the command that it starts."""
        textfile = self.textfile()
        if textfile and not PLAIN.fullmatch(textfile):
            raise InstallError("--textfile %s cannot stand in a unit" % ascii(textfile))
        command = " ".join(
            [self.python(), *self.request["command"], *(["--textfile", textfile] if textfile else [])])
        return text.replace("@COMMAND@", command).replace("@DELAY@", self.delay).encode()

    def started(self) -> None:
        """Afterwards systemd, or cron where there is none, starts the agent."""
        before = self.exported()
        if before is not None and before != self.textfile():
            self.unexport(before)
        if not self.systemd():
            path, text = self.request["cron"]
            if not os.path.isdir(self.root + os.path.dirname(path)):
                raise InstallError("there is neither systemd nor cron here: what is to start the agent?")
            if put(self.root + path, self.filled(text), 0o644):
                self.changed(path)
            return
        new = False
        for path, text in self.request["units"].items():
            if put(self.root + path, self.filled(text), 0o644):
                self.changed(path)
                new = True
        found = self.shown(TIMER, "UnitFileState", "ActiveState", "NeedDaemonReload")
        if new or found.get("NeedDaemonReload") != "no":
            self.systemctl("daemon-reload")
        if new or found.get("ActiveState") != "active" or found.get("UnitFileState") != "enabled":
            self.systemctl("enable", TIMER)
            self.systemctl("restart", TIMER)
            if not new:
                self.changed("timer started")
        self.served()

    def served(self) -> None:
        """Afterwards systemd keeps the exporter running, or has none where none is asked for."""
        path, text = self.request["exporter"]
        there = self.root + path
        if text is None:
            if os.path.lexists(there):
                self.unserved()
                self.systemctl("daemon-reload")
                self.changed("exporter removed")
            return
        command = " ".join([self.python(), *self.request["exporting"]])
        new = put(there, text.replace("@EXPORTER@", command).encode(), 0o644)
        if new:
            self.changed(path)
            self.systemctl("daemon-reload")
        found = self.shown(EXPORTER, "UnitFileState", "ActiveState")
        if new or found.get("ActiveState") != "active" or found.get("UnitFileState") != "enabled":
            self.systemctl("enable", EXPORTER)
            self.systemctl("restart", EXPORTER)
            if not new:
                self.changed("exporter started")

    def unserved(self) -> None:
        """Afterwards there is no exporter of ours, and no unit of it."""
        there = self.root + self.request["exporter"][0]
        if os.path.lexists(there) and self.systemd():
            self.systemctl("disable", "--now", EXPORTER)
        gone(there)
        gone(os.path.join(os.path.dirname(there), ".%s.new" % os.path.basename(there)))
