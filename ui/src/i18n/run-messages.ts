import type { Language } from "@/app/preferences"
import { interpolate } from "./translate"

export const RUN_MESSAGES: readonly (readonly [en: string, zh: string])[] = [
  ["No more retries left", "重试次数已用完"],
  ["Max duration limit exceeded", "超过了重试的最长时间"],
  ["Backoff would exceed max duration limit", "再次重试将超过最长时间"],
  ["retry exceeded workflow deadline {when}", "重试超过了截止时间 {when}"],
  ["Stopped with strategy '{strategy}'", "已停止"],
  ["workflow shutdown with strategy: {strategy}", "运行实例已被停止"],
  ["child '{child}' failed", "子节点 {child} 失败"],
  ["template has failed or errored children and failFast enabled", "有子节点失败，其余节点不再执行"],
  ["Pod was active on the node longer than the specified deadline", "运行时间超过了限制"],
  ["pod deleted", "Pod 已被删除"],
  ["outputs could not be collected: {error}", "无法收集输出参数：{error}"],
  ["its Workflow was deleted on the cluster", "集群上的 Workflow 已被删除"],
  ["the cluster refused it: {error}", "集群拒绝执行：{error}"],
  ["OOMKilled (exit code {code})", "内存不足，被系统终止（退出码 {code}）"],
  ["Error (exit code {code})", "出错（退出码 {code}）"],
  ["Error (exit code {code}): {error}", "出错（退出码 {code}）：{error}"],
  ["{node} failed", "{node} 失败"],
]

const PATTERNS = RUN_MESSAGES.map(([en, zh]) => ({ pattern: pattern(en), zh }))
const NAMED = /^([^\s:'"]{1,63}): (.+)$/s

export function runMessage(text: string, language: Language): string {
  if (language !== "zh") return text
  for (const { pattern, zh } of PATTERNS) {
    const found = pattern.exec(text)
    if (found) return interpolate(zh, { ...found.groups })
  }
  // It may be said of whom it is: "main: Error (exit code 1)", "train: No more retries left".
  const [, name, rest] = NAMED.exec(text) ?? []
  if (name === undefined || rest === undefined) return text
  const told = runMessage(rest, language)
  return told === rest ? text : `${name}：${told}`
}

function pattern(template: string): RegExp {
  const parts = template.split(/\{(\w+)\}/)
  const source = parts.map((part, index) =>
    index % 2
      ? `(?<${part}>${part === "node" ? "\\S+" : ".+?"})`
      : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll(" ", " +"),
  )
  return new RegExp(`^${source.join("")}$`, "s")
}
