#if canImport(Darwin)
    import Darwin

    package enum ProcessTable {
        /// The entry of `sysctl(KERN_PROC_PID)`, or nil when there is no such process or the sandbox hides it.
        package static func entry(_ pid: Int32) -> ProcessEntry? {
            guard let info = info(pid) else { return nil }
            // In C, this is the macro `p_starttime`, which Swift does not import.
            let start = info.kp_proc.p_un.__p_starttime
            return ProcessEntry(
                startTime: UInt64(start.tv_sec) * 1_000_000 + UInt64(start.tv_usec),
                isStopped: Int32(info.kp_proc.p_stat) == SSTOP,
                isZombie: Int32(info.kp_proc.p_stat) == SZOMB
            )
        }

        package static func name(_ pid: Int32) -> String? {
            guard let info = info(pid) else { return nil }
            return withUnsafeBytes(of: info.kp_proc.p_comm) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self).withVisibleControls
            }
        }

        static let showsOwnNamespace = true
        static let hasNamespaces = false

        /// The pid itself, because there is one pid namespace.
        package static func innermostPID(_ pid: Int32) -> Int32? { pid }

        /// nil: other processes' descriptors and groups are not inspected.
        package static func credentials(_ pid: Int32) -> Credentials? { nil }
        package static func writes(_ file: FileIdentity, _ pid: Int32) -> Bool? { nil }

        private static func info(_ pid: Int32) -> kinfo_proc? {
            var request = [CTL_KERN, KERN_PROC, KERN_PROC_PID, pid]
            var info = kinfo_proc()
            var size = MemoryLayout<kinfo_proc>.stride
            do {
                try System.perform(.readProcess) { sysctl(&request, u_int(request.count), &info, &size, nil, 0) }
            } catch {
                return nil
            }
            return size == 0 ? nil : info
        }
    }

    let ownNamespace: UInt64 = 0
#endif
