/**
 * How many requests of one connection may be under way (HTTP/1.1 lets a client
 * send as many as it likes before it reads the answer to the first), and what
 * becomes of them when it breaks.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http"
import type { Duplex } from "node:stream"

/**
 * Requests of one connection that are under way. What comes in one piece of 64 KiB comes at once, some thousands of requests,
 * and everybody else's would wait behind them. Hardly a client sends one before the answer to the last, and no proxy does.
 */
export const pipelinedMax = 32

/**
 * Node tells of a request that breaks off those who listen, and looks whether anybody does a moment before. Behind one that is
 * under way its reader is called off in that moment, and an error that nobody hears would end the process.
 */
const heard = (): void => {}

/** Closes a connection by which more requests come than may be under way, and keeps those from whoever answers. */
export const boundPipelines = (server: Server, onCrowded: () => void): void => {
  const underWay = new WeakMap<Duplex, number>()
  const isTaken = (request: IncomingMessage, response: ServerResponse): boolean => {
    const { socket } = request
    if (socket.destroyed) return false
    const count = (underWay.get(socket) ?? 0) + 1
    if (count > pipelinedMax) {
      socket.destroy()
      onCrowded()
      return false
    }
    underWay.set(socket, count)
    request.on("error", heard)
    response.once("close", () => underWay.set(socket, underWay.get(socket)! - 1)) // it was counted
    return true
  }
  const emit = server.emit.bind(server) as (name: string | symbol, ...of: ReadonlyArray<unknown>) => boolean // whatever the event
  // No listener could keep a request from the others.
  server.emit = (name: string | symbol, ...of: ReadonlyArray<unknown>): boolean => {
    if (name !== "request" && name !== "checkContinue") return emit(name, ...of)
    const [request, response] = of as [IncomingMessage, ServerResponse] // by its name
    return !isTaken(request, response) || emit(name, request, response) // each request comes here: nothing is spread for it
  }
}
