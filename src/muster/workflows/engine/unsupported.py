"""Templates that only work with something that is not here."""

from __future__ import annotations

from muster.workflows.engine.work import Work


class Unsupported(Work):
    def start(self) -> None:
        self.open("Plugin", "Pending")
        kinds = ", ".join(self.template.get("plugin") or ()) or "none"
        self.fail(
            f"plugin templates ({kinds}) run in an executor plugin of Argo's, and there is none here: "
            "use a container, script, http or resource template instead"
        )

    def restore(self) -> None:
        self.run.agenda.add(self)

    def advance(self) -> None:
        self.start()
