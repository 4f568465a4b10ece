/**
 * How slowly an answer may be taken. Node gives up a connection by which
 * nothing goes for a while, and a byte is something: who took one now and then
 * would have what his answer holds for days. So each piece of it must be taken
 * in that time, too, or in twice that, for it is looked at no more often.
 */
import { Effect, type Duration, type Scope } from "effect"
import type { Server } from "node:http"
import type { Socket } from "node:net"

/** Closes connections of this server in which a piece of an answer waits, if none was taken whole since the last look. */
export const boundSlowness = (server: Server, every: Duration.Input): Effect.Effect<void, never, Scope.Scope> =>
  Effect.suspend(() => {
    /** Bytes of pieces that were taken by the last look; null: none waited then. */
    const takenThen = new Map<Socket, number | null>()
    server.on("connection", (socket: Socket) => {
      takenThen.set(socket, null)
      socket.once("close", () => takenThen.delete(socket))
    })
    const look = Effect.sync(() => {
      for (const [socket, before] of takenThen) {
        const waiting = socket.writableLength // a piece counts until it has gone
        const taken = socket.bytesWritten - waiting
        if (waiting > 0 && taken === before) socket.destroy()
        takenThen.set(socket, waiting > 0 ? taken : null)
      }
    })
    return Effect.asVoid(Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(every), look))))
  })
