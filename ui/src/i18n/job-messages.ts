import type { Language } from "@/app/preferences"
import type { jobTexts } from "./jobs"
import type { Translate } from "./translate"

const SENTENCES: [RegExp, string | ((...found: string[]) => string)][] = [
  [
    /^\S+ \S+ is failed because (\d+) (\S+) replica\(s\) failed\.\s*(?:Pod (\S+), container (\S+): exit code (\d+)(?: \((.+?)\))?)?(.*)$/s,
    (_, count, role, pod, container, code, reason, rest) =>
      `${count} 个 ${role} 副本失败。${pod ? `Pod ${pod}，容器 ${container}：退出码 ${code}${reason ? `（${reason}）` : ""}` : ""}${rest}`,
  ],
  [/^(\S+ \S+) is created\.$/, "$1 已创建。"],
  [/^(\S+ \S+) is running\.$/, "$1 正在运行。"],
  [/^(\S+ \S+) is suspended\.$/, "$1 已挂起。"],
  [/^(\S+ \S+) is restarting because (.+) replica\(s\) failed\.$/, "$1 正在重启：$2 副本失败。"],
  [/^(\S+ \S+) successfully completed\.$/, "$1 已成功完成。"],
]

const PIECES: [RegExp, string | ((...found: string[]) => string)][] = [
  [
    /(?:\d+\/\d+ tasks in gang unschedulable: )?(?:pod group is not ready, [^;]*; )?minResources not met: /g,
    "资源不足：",
  ],
  [/([\w.\-/]+): (\S+) asked, (\S+) free/g, "$1 需要 $2，可用 $3"],
  [/init container "([^"]+)"/g, "初始化容器“$1”"],
  [
    /container "([^"]+)" exited with code (\d+)(?: \((\w+)\))?(?:: )?/g,
    (_, name, code, reason, at, whole) => {
      const ends = whole.length === Number(at) + _.length
      return `容器“${name}”以退出码 ${code} 结束${reason ? `（${reason}）` : ""}${ends ? "" : "："}`
    },
  ],
  [/it used more memory than its limit allows/g, "使用的内存超出了上限"],
  [/the command is not executable/g, "命令不可执行"],
  [/command not found/g, "找不到命令"],
  [/killed \(SIGKILL\)/g, "被强制终止（SIGKILL）"],
  [/asked to end \(SIGTERM\)/g, "被要求结束（SIGTERM）"],
  [
    /0\/(\d+) nodes are available: (.*)\.$/g,
    (_, count, causes) =>
      `${count} 台机器均不可用：${causes.replace(/(\d+) Insufficient ([\w.\-/]+)/g, "$1 台 $2 不足").replaceAll(", ", "，")}。`,
  ],
  [/the scheduler has not looked at it yet/g, "调度器尚未处理"],
  [/no node has been chosen yet/g, "尚未选定机器"],
]

export function jobMessage(message: string, language: Language): string {
  if (language !== "zh") return message
  const sentence = SENTENCES.find(([pattern]) => pattern.test(message))
  if (sentence) return replaced(message, sentence)
  return PIECES.reduce(replaced, message)
}

const CONDITIONS = {
  Created: "conditionCreated",
  Running: "running",
  Restarting: "restarting",
  Suspended: "suspended",
  Succeeded: "succeeded",
  Failed: "failed",
} as const

export function conditionName(type: string, w: Translate<keyof typeof jobTexts>): string {
  return type in CONDITIONS ? w(CONDITIONS[type as keyof typeof CONDITIONS]) : type
}

function replaced(text: string, [pattern, by]: [RegExp, string | ((...found: string[]) => string)]): string {
  return typeof by === "string"
    ? text.replace(pattern, by)
    : text.replace(pattern, (...found: unknown[]) =>
        by(...found.map((each) => (each === undefined ? "" : String(each)))),
      )
}
