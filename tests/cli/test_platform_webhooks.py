"""`muster webhooks` against a complete Muster."""

from __future__ import annotations

import json

from tests.cli.commands import Muster


def test_the_life_of_a_webhook(cluster: Muster) -> None:
    url = "http://127.0.0.1:9/hook?token=hidden"
    made = cluster("webhooks", "create", "chat", url, "--state", "failed", "--secret", "correct horse battery").ok()
    hook = made.out.strip()
    refused = cluster("webhooks", "create", "chat", "ftp://x", "--state", "lost")
    assert refused.code == 1
    row = cluster("webhooks", "list", "--mine").ok().out.splitlines()[1].split()
    assert row[:3] == [hook, "chat", "http://127.0.0.1:9/…"]
    assert row[4:] == ["failed", "yes"]
    tested = cluster("webhooks", "test", hook)
    assert tested.code == 1
    assert "127.0.0.1 may not be used: it is in the server's own network" in tested.err
    (entry,) = json.loads(cluster("webhooks", "log", hook, "--json").ok().out)
    assert (entry["event"], entry["state"], entry["error_code"]) == ("test", "failed", "webhook.address")
    cluster("webhooks", "edit", hook, "--disable", "--name", "quiet").ok()
    assert "enter the secret again" in cluster("webhooks", "edit", hook, "--url", "https://other.example").err
    (shown,) = json.loads(cluster("webhooks", "list", "--json").ok().out)
    assert (shown["name"], shown["enabled"], shown["has_secret"]) == ("quiet", False, True)
    assert "hidden" not in str(shown)
    assert "correct horse" not in str(shown)
    cluster("webhooks", "redeliver", hook, entry["id"]).ok()
    cluster("webhooks", "delete", hook).ok()
    assert cluster("webhooks", "log", hook).code == 1
