import CRoundtableShims

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
        #if canImport(Darwin)
            var thread: pthread_t?
            let error = pthread_create(&thread, nil, { Self.run($0) }, start.toOpaque())
            if error == 0, let thread { pthread_detach(thread) }
        #else
            var thread = pthread_t()
            let error = pthread_create(&thread, nil, { Self.run($0!) }, start.toOpaque())
            if error == 0 { pthread_detach(thread) }
        #endif
        if error != 0 { start.release() }
        return error == 0
    }

    private static func run(_ start: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
        Unmanaged<Start>.fromOpaque(start).takeRetainedValue().run()
        return nil
    }
}
