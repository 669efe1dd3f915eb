import CRoundtableShims
import Dispatch

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Starts threads that nobody joins. The kernel has no Foundation, whose `Thread` a program that loads the kernel as a library would have to
/// bring along (docs/LOADABLE.md).
package enum DetachedThread {
    private final class Start {
        let name: String?
        let body: @Sendable () -> Void

        init(_ name: String?, _ body: @escaping @Sendable () -> Void) { (self.name, self.body) = (name, body) }

        func run() {
            if let name { rt_name_thread(name) }
            body()
        }
    }

    /// - parameter name: at most 15 bytes, as debuggers and `ps -L` show it.
    /// - returns: whether the process could have another thread (pthread_create(3)).
    package static func start(named name: String? = nil, _ body: @escaping @Sendable () -> Void) -> Bool {
        let start = Unmanaged.passRetained(Start(name, body))
        do {
            try System.perform(.thread) {
                errno = create(start.toOpaque())
                return errno == 0 ? 0 : -1
            }
            return true
        } catch {
            start.release()
            return false
        }
    }

    /// Runs `body` on a thread of its own. If the process can have no more threads (`ulimit -u`, a limit of its container), one of
    /// libdispatch's runs it when one is available. Foundation's `Thread` drops `body` then, without an error.
    package static func startOrQueue(_ body: @escaping @Sendable () -> Void) {
        if !start(body) { DispatchQueue.global().async(execute: body) }
    }

    /// - returns: 0, or the errno.
    private static func create(_ start: UnsafeMutableRawPointer) -> Int32 {
        #if canImport(Darwin)
            var thread: pthread_t?
            let error = pthread_create(&thread, nil, { Self.run($0) }, start)
            if error == 0, let thread { pthread_detach(thread) }
        #else
            var thread = pthread_t()
            let error = pthread_create(&thread, nil, { Self.run($0!) }, start)
            if error == 0 { pthread_detach(thread) }
        #endif
        return error
    }

    private static func run(_ start: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
        Unmanaged<Start>.fromOpaque(start).takeRetainedValue().run()
        return nil
    }
}
