import { texts } from "./translate"

export const tagTexts = texts({
  tags: ["Tags", "标签"],
  tag: ["Tag", "标签"],
  add: ["Add tag", "添加标签"],
  remove: ["Remove tag {tag}", "删除标签 {tag}"],
  hint: [
    "baseline or data=june. Press Enter after each. All users see tags.",
    "例如 baseline 或 data=june，按回车添加。所有用户都能看到标签。",
  ],
  edit: ["Edit tags", "编辑标签"],
  editLead: [
    "Tags help you and others find runs. They do not change how a run runs.",
    "标签便于您和他人查找运行实例，不影响运行方式。",
  ],
  allTags: ["All tags", "全部标签"],
  only: ["Show only runs with {tag}", "仅显示带有 {tag} 的运行实例"],
  wrong: ["Use KEY or KEY=VALUE, such as baseline or data=june.", "请使用“键”或“键=值”，例如 baseline 或 data=june。"],
})

export const historyTexts = texts({
  runs: ["Runs", "运行实例"],
  recent: ["Recent runs", "最近的运行"],
  recentLead: [
    "The last {n} run. Height is its duration.||The last {n} runs, oldest first. Height is the duration.",
    "最近 {n} 次运行，从旧到新；高度表示运行时长。",
  ],
  one: ["{name}: {state}, {duration}, version {version}", "{name}：{state}，{duration}，版本 {version}"],
  rate: ["{n} % succeeded", "成功率 {n}%"],
  median: ["median {duration}", "中位时长 {duration}"],
  none: ["No runs yet", "还没有运行实例"],
  noneHelp: [
    "Run a version of this workflow to see its history here.",
    "运行该工作流的某个版本后，这里会显示运行历史。",
  ],
  all: ["All versions", "全部版本"],
})
