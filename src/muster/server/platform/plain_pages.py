"""Pages for a server whose web UI was not built. The one behind a one-time link lets somebody choose a password. The
secret is in the part of the address that browsers keep to themselves, so it is in no log and no history of a proxy."""

from __future__ import annotations

WELCOME = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Muster</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 26rem; margin: 12vh auto; padding: 0 1rem }
  input, button { font: inherit; width: 100%; box-sizing: border-box; padding: .5rem; margin: .25rem 0 1rem }
  [role=alert] { color: #b00020; min-height: 1.5em }
</style>
<h1>Muster</h1>
<p id="told">Looking at the link …</p>
<form hidden>
  <input name="username" autocomplete="username" readonly hidden>
  <label>Password 密码 <input name="password" type="password" autocomplete="new-password" required></label>
  <button>Log in 登录</button>
</form>
<p role="alert"></p>
<script src="/welcome.js" type="module"></script>
"""

WELCOME_SCRIPT = """const told = document.querySelector("#told")
const form = document.querySelector("form")
const alert = document.querySelector("[role=alert]")
const secret = location.hash.slice(1)

async function ask(path, body) {
  const answer = await fetch(`/api/v1/${path}`, {
    method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body),
  })
  const said = await answer.json()
  if (!answer.ok) throw new Error(said.detail)
  return said
}

form.addEventListener("submit", async event => {
  event.preventDefault()
  alert.textContent = ""
  try {
    await ask("link/use", {secret, password: form.password.value})
    location.replace("/")
  } catch (error) {
    alert.textContent = error.message
  }
})

try {
  const {name} = await ask("link", {secret})
  told.textContent = `Choose a password for the account “${name}”. 请为账号“${name}”设置密码。`
  form.username.value = name
  form.hidden = false
} catch (error) {
  told.textContent = error.message
}
"""

NOT_BUILT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Muster</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 36rem; margin: 12vh auto; padding: 0 1rem }
  code { background: #8883; padding: .1em .3em; border-radius: .2em }
</style>
<h1>Muster</h1>
<p>The web UI was not built. In a checkout of Muster, run <code>make ui</code> and load this page again.</p>
<p lang="zh">网页界面尚未构建。请在 Muster 的源码目录中运行 <code>make ui</code>，然后刷新本页。</p>
<p>The API is here: <a href="/api/v1/health">/api/v1</a>, and so is <code>muster --help</code>.</p>
"""
