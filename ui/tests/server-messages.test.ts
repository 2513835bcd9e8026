import { describe, expect, it } from "vitest"
import { type MessagePart, serverMessage, serverMessageParts, statusMessage } from "@/i18n/server-messages"

const part = (code: string, values: Record<string, unknown> = {}): MessagePart => ({ code, arguments: values })
const text = (written: string) => part("text", { text: written })

describe("messages with a code", () => {
  it("are the server's English text in English", () => {
    const found = { code: "team.taken", message: 'there is already a team "a"', arguments: { name: "a" } }
    expect(serverMessage(found, "en")).toBe('There is already a team "a"')
    expect(serverMessage(found, "zh")).toBe("已有名为“a”的团队；请换一个名称")
  })

  it("have what is wrong and what to do about it", () => {
    const found = { code: "graph.empty", message: "the graph has no node", fix: "add at least one node", arguments: {} }
    expect(serverMessage(found, "en")).toBe("The graph has no node; add at least one node")
    expect(serverMessageParts(found, "zh")).toEqual({ message: "流程图中没有节点", fix: "请至少添加一个节点" })
  })

  it("join lists", () =>
    expect(
      serverMessage(
        { code: "training.role", message: "", arguments: { kind: "JAXJob", role: "PS", roles: ["A", "B"] } },
        "zh",
      ),
    ).toBe("JAXJob 没有角色“PS”；请选择 A、B"))

  it.each([
    ["missing", { kind: "run", name: "a" }, "没有运行实例“a”"],
    ["missing", { kind: "virtual cluster", name: "a" }, "没有虚拟集群“a”"],
    ["missing", { kind: "something", name: "a" }, "没有something“a”"],
    ["module.field", { field: "image" }, "模块节点的 镜像地址 由模块决定；请删除该项"],
    ["token.more", { scopes: ["admin"] }, "令牌不能创建权限更大的令牌；缺少 管理"],
  ])("%s with %j uses the words of the Chinese UI", (code, values, expected) =>
    expect(serverMessage({ code, message: "", arguments: values }, "zh")).toBe(expected),
  )

  it("stay English if the code is unknown", () =>
    expect(serverMessage({ code: "no.such", message: "something new" }, "zh")).toBe("Something new"))
})

describe("status messages", () => {
  it.each([
    [[part("about", { name: "train" }), part("status.retries-used")], "train：重试次数已用完"],
    [[part("status.error-exit", { code: "3" })], "出错（退出码 3）"],
    [
      [
        part("status.container-exit", { container: "pytorch", code: "137" }),
        text(" (OOMKilled): "),
        part("status.memory"),
      ],
      "容器“pytorch”以退出码 137 结束（OOMKilled）：使用的内存超出了上限",
    ],
    [
      [
        part("status.no-nodes", { count: "2" }),
        part("status.insufficient", { count: "1", resource: "cpu" }),
        text(", "),
        part("status.insufficient", { count: "1", resource: "nvidia.com/gpu" }),
        text("."),
      ],
      "2 台机器均不可用：1 台 cpu 不足，1 台 nvidia.com/gpu 不足。",
    ],
    [[text("what a program printed")], "what a program printed"],
  ])("%j is %s", (parts, expected) => {
    expect(statusMessage({ message: "English", message_parts: parts }, "zh")).toBe(expected)
    expect(statusMessage({ message: "English", message_parts: parts }, "en")).toBe("English")
  })
})
