import { words } from "./words"

export const shellWords = words({
  skip: ["Skip to the content", "跳到正文"],
  navigation: ["Main navigation", "主导航"],
  home: ["Home", "首页"],
  workflows: ["Workflows", "工作流"],
  runs: ["Runs", "运行实例"],
  modules: ["Modules", "模块管理"],
  reviews: ["Reviews", "模块审核"],
  jobs: ["Jobs", "训练任务"],
  cluster: ["Cluster", "集群"],
  admin: ["Administration", "系统管理"],
  language: ["Language", "语言"],
  theme: ["Theme", "主题"],
  themeLight: ["Light", "浅色"],
  themeDark: ["Dark", "深色"],
  themeSystem: ["As the system", "跟随系统"],
  account: ["Account of {name}", "{name} 的账号"],
  signOut: ["Sign out", "退出登录"],
  collapse: ["Collapse the navigation", "收起导航"],
  expand: ["Expand the navigation", "展开导航"],
  menu: ["Menu", "菜单"],
  roleAdmin: ["Admin", "管理员"],
  roleMember: ["Member", "成员"],
})

export const signInWords = words({
  title: ["Sign in to Muster", "登录 Muster"],
  name: ["Account", "账号"],
  password: ["Password", "密码"],
  signIn: ["Sign in", "登录"],
  signInWith: ["Sign in with {name}", "使用 {name} 登录"],
  or: ["or", "或"],
  wrong: ["The name or the password is wrong.", "账号或密码错误。"],
  tooMany: ["There were too many failed attempts. Try again in a moment.", "失败次数过多，请稍后再试。"],
  first: [
    "Nobody has an account yet? `muster up` shows a one-time link for the first admin.",
    "还没有账号？运行 `muster up` 会显示首位管理员的一次性链接。",
  ],
  openidFailed: ["The other sign-in did not work: {detail}", "第三方登录失败：{detail}"],
  welcome: ["Welcome", "欢迎"],
  choose: ["Choose a password for the account “{name}”.", "请为账号“{name}”设置密码。"],
  newPassword: ["Password (at least 10 characters)", "密码（至少 10 个字符）"],
  useLink: ["Set the password and sign in", "设置密码并登录"],
  badLink: ["This link cannot be used", "此链接无法使用"],
  badLinkHelp: [
    "A one-time link works once. Ask an admin for a new one, or sign in.",
    "一次性链接只能使用一次。请向管理员索取新链接，或直接登录。",
  ],
  toSignIn: ["To the sign-in page", "前往登录页"],
})

export const homeWords = words({
  hello: ["Hello, {name}", "{name}，您好"],
  needsYou: ["What needs you", "待我处理"],
  nothingNeedsYou: ["Nothing needs you right now.", "目前没有需要您处理的事项。"],
  recentWorkflows: ["My workflows", "我的工作流"],
  allWorkflows: ["All workflows", "全部工作流"],
  noWorkflows: ["You have no workflows yet", "您还没有工作流"],
  noWorkflowsHelp: [
    "A workflow is a graph of steps. Draw one, or import an Argo Workflow you already have.",
    "工作流由多个节点连接而成。您可以在画布上创建，也可以导入已有的 Argo Workflow。",
  ],
  failedRuns: ["My failed runs", "我失败的运行实例"],
  recentRuns: ["My latest runs", "我最近的运行实例"],
  waitingReviews: ["Reviews waiting", "待审核的模块"],
  versionsOf: ["{n} version||{n} versions", "{n} 个版本"],
})
