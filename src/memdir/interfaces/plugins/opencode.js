// memdir's plugin for opencode: written by `memdir install opencode`, removed by `memdir uninstall opencode`.
// It calls these commands and adds what they answer. Without an answer, opencode works as without memdir.
//   memdir hook user-prompt --host opencode
//   memdir hook before-tool --host opencode
//   memdir hook after-tool --host opencode
//   memdir hook tool-failure --host opencode
//   memdir hook stop --host opencode
import { spawn, spawnSync } from "node:child_process"
import { appendFileSync, existsSync, mkdirSync } from "node:fs"
import { homedir } from "node:os"
import { join } from "node:path"

const COMMAND = {{command}}
// opencode keeps conversations in a database of its own; memdir learns from this copy of its events.
const FOLDER = join(process.env.XDG_DATA_HOME || join(homedir(), ".local", "share"), "opencode", "memdir")

function call(event, table) {
  return new Promise((resolve) => {
    let text = ""
    try {
      const options = { cwd: table.cwd, stdio: ["pipe", "pipe", "ignore"], timeout: 20000 }
      const child = spawn(COMMAND[0], [...COMMAND.slice(1), "hook", event, "--host", "opencode"], options)
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

const wrap = (text) => `<system-reminder>\n${text}\n</system-reminder>`

export const Memdir = async ({ directory }) => {
  const waiting = new Map() // what a call brought before it ran: opencode shows it with the result
  const messages = new Map() // of all conversations, until they are written
  const parents = new Map() // of subagents' conversations
  let count = 0

  const describe = (id) => {
    const parent = parents.get(id)
    return { session_id: parent || id, cwd: directory, ...(parent ? { agent_id: id } : {}) }
  }
  const find = (id, session) => {
    if (!messages.has(id)) messages.set(id, { session, info: { id }, parts: new Map() })
    return messages.get(id)
  }

  // opencode ends right after its last event, so this does not wait for anything.
  function keep(session) {
    const path = join(FOLDER, `${session}.jsonl`)
    mkdirSync(FOLDER, { recursive: true, mode: 0o700 })
    const lines = existsSync(path) ? [] : [{ type: "session", host: "opencode", id: session, directory }]
    for (const [id, message] of messages) {
      if (message.session !== session) continue
      lines.push({ type: "message", info: message.info, parts: [...message.parts.values()] })
      messages.delete(id)
    }
    appendFileSync(path, lines.map((line) => JSON.stringify(line) + "\n").join(""), { mode: 0o600 })
    const input = JSON.stringify({ ...describe(session), transcript_path: path })
    spawnSync(COMMAND[0], [...COMMAND.slice(1), "hook", "stop", "--host", "opencode"], { input, timeout: 20000 })
  }

  return {
    "chat.message": async (input, output) => {
      const about = describe(input.sessionID)
      if (about.agent_id) return // a subagent's task is not typed by a person
      const texts = output.parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
      const { additionalContext } = await call("user-prompt", { ...about, prompt: texts.join("\n\n") })
      if (additionalContext)
        output.parts.push({
          id: `prt_memdir${Date.now().toString(36)}${count++}`,
          sessionID: input.sessionID,
          messageID: output.message.id,
          type: "text",
          synthetic: true,
          text: wrap(additionalContext),
        })
    },
    "tool.execute.before": async (input, output) => {
      const tool = { tool_name: input.tool, tool_input: output.args, tool_use_id: input.callID }
      const reply = await call("before-tool", { ...describe(input.sessionID), ...tool })
      if (reply.permissionDecision === "deny") throw new Error(reply.permissionDecisionReason)
      if (reply.additionalContext) waiting.set(input.callID, reply.additionalContext)
    },
    "tool.execute.after": async (input, output) => {
      const exit_code = output.metadata?.exit ?? 0
      const reply = await call(exit_code ? "tool-failure" : "after-tool", {
        ...describe(input.sessionID),
        tool_name: input.tool,
        tool_input: input.args,
        tool_use_id: input.callID,
        tool_response: { output: output.output, exit_code },
      })
      for (const text of [waiting.get(input.callID), reply.additionalContext])
        if (text) output.output += `\n\n${wrap(text)}`
      waiting.delete(input.callID)
    },
    event: async ({ event: { type, properties } }) => {
      try {
        if (type === "session.created" && properties.info.parentID) parents.set(properties.info.id, properties.info.parentID)
        if (type === "message.updated") find(properties.info.id, properties.info.sessionID).info = properties.info
        if (type === "message.part.updated")
          find(properties.part.messageID, properties.part.sessionID).parts.set(properties.part.id, properties.part)
        if (type === "session.idle" && !parents.has(properties.sessionID)) keep(properties.sessionID)
      } catch {
        // What could not be written is tried again after the next turn.
      }
    },
  }
}
