// memdir's extension for pi: written by `memdir install pi`, removed by `memdir uninstall pi`.
// It calls these commands and adds what they answer. Without an answer, pi works as without memdir.
//   memdir hook user-prompt --host pi
//   memdir hook before-tool --host pi
//   memdir hook after-tool --host pi
//   memdir hook tool-failure --host pi
//   memdir hook before-compact --host pi
//   memdir hook stop --host pi
import { spawn } from "node:child_process"

const COMMAND: string[] = {{command}}

function call(event: string, table: any): Promise<any> {
  return new Promise((resolve) => {
    let text = ""
    try {
      const child = spawn(COMMAND[0], [...COMMAND.slice(1), "hook", event, "--host", "pi"], {
        cwd: table.cwd,
        stdio: ["pipe", "pipe", "ignore"],
        timeout: 20000,
      })
      child.on("error", () => resolve({}))
      child.stdin.on("error", () => {})
      child.stdout.on("data", (data) => (text += data))
      child.on("close", () => {
        try {
          resolve(JSON.parse(text).hookSpecificOutput ?? {})
        } catch {
          resolve({})
        }
      })
      child.stdin.end(JSON.stringify(table))
    } catch {
      resolve({})
    }
  })
}

const wrap = (text: string) => `<system-reminder>\n${text}\n</system-reminder>`

export default function (pi: any) {
  const waiting = new Map<string, string>() // what a call brought before it ran: pi shows it with the result

  const describe = (ctx: any) => ({
    session_id: ctx.sessionManager.getSessionId(),
    transcript_path: ctx.sessionManager.getSessionFile() ?? "",
    cwd: ctx.cwd,
  })

  pi.on("before_agent_start", async (event: any, ctx: any) => {
    const { additionalContext } = await call("user-prompt", { ...describe(ctx), prompt: event.prompt })
    if (additionalContext)
      return { message: { customType: "memdir", content: wrap(additionalContext), display: false } }
  })
  pi.on("tool_call", async (event: any, ctx: any) => {
    const tool = { tool_name: event.toolName, tool_input: event.input, tool_use_id: event.toolCallId }
    const reply = await call("before-tool", { ...describe(ctx), ...tool })
    if (reply.permissionDecision === "deny") return { block: true, reason: reply.permissionDecisionReason }
    if (reply.additionalContext) waiting.set(event.toolCallId, reply.additionalContext)
  })
  pi.on("tool_result", async (event: any, ctx: any) => {
    const output = event.content.map((block: any) => block.text ?? "").join("\n")
    const reply = await call(event.isError ? "tool-failure" : "after-tool", {
      ...describe(ctx),
      tool_name: event.toolName,
      tool_input: event.input,
      tool_use_id: event.toolCallId,
      tool_response: { output, is_error: event.isError },
    })
    const texts = [waiting.get(event.toolCallId), reply.additionalContext].filter(Boolean) as string[]
    waiting.delete(event.toolCallId)
    if (texts.length)
      return { content: [...event.content, ...texts.map((text) => ({ type: "text", text: wrap(text) }))] }
  })
  pi.on("session_before_compact", async (_: any, ctx: any) => {
    await call("before-compact", describe(ctx))
  })
  pi.on("agent_end", async (_: any, ctx: any) => {
    await call("stop", describe(ctx))
  })
}
