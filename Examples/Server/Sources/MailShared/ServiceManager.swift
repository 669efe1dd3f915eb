import Foundation

/// The service manager that has started this process, if it waits for notifications: systemd with `Type=notify`.
public enum ServiceManager {
    /// Sends a state, such as `READY=1`, to the socket in `NOTIFY_SOCKET`, as [sd_notify(3)](https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html) describes it. Without the variable, this does
    /// nothing. A failure is ignored: systemd then reports that the service did not become ready.
    public static func notify(_ state: String) {
        #if os(Linux)
            guard let path = ProcessInfo.processInfo.environment["NOTIFY_SOCKET"] else { return }
            var name = Array(path.utf8)
            // The name of an abstract socket begins with a zero byte, for which the variable has "@".
            if name.first == UInt8(ascii: "@") { name[0] = 0 }
            var address = sockaddr_un()
            guard !name.isEmpty, name.count < MemoryLayout.size(ofValue: address.sun_path) else { return }
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
            let size = socklen_t(MemoryLayout.offset(of: \sockaddr_un.sun_path)! + name.count)

            let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
            guard descriptor >= 0 else { return }
            defer { close(descriptor) }
            let bytes = Array(state.utf8)
            withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    _ = sendto(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL), $0, size)
                }
            }
        #endif
    }
}
