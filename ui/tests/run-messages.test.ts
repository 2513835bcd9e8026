import { expect, it } from "vitest"
import { RUN_MESSAGES, runMessage } from "@/i18n/run-messages"

const placeholders = (text: string) => (text.match(/\{\w+\}/g) ?? []).sort()

it.each([
  ["No more retries left", "重试次数已用完"],
  ["train: No more retries left", "train：重试次数已用完"],
  ["main: Error (exit code 3)", "main：出错（退出码 3）"],
  ["train: main: OOMKilled (exit code 137)", "train：main：内存不足，被系统终止（退出码 137）"],
  ["workflow shutdown with strategy:  Stop", "运行实例已被停止"],
  ["the cluster refused it: spec: no", "集群拒绝执行：spec: no"],
  ["train failed", "train 失败"],
  ["something nobody translated", "something nobody translated"],
  ["note: something nobody translated", "note: something nobody translated"],
])("%s", (english, chinese) => {
  expect(runMessage(english, "zh")).toBe(chinese)
  expect(runMessage(english, "en")).toBe(english)
})

it.each(RUN_MESSAGES)("%s: the Chinese text uses only values of the English one", (en, zh) => {
  for (const each of placeholders(zh)) expect(placeholders(en)).toContain(each)
})
