#if os(Linux)
    import Foundation

    extension PeerFleet {
        /// The C compiler of this machine.
        package static let compiler: URL? = {
            let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
            let candidates = ["cc", "clang", "gcc"].flatMap { name in folders.map { "\($0)/\(name)" } }
            return candidates.first(where: FileManager.default.isExecutableFile).map { URL(fileURLWithPath: $0) }
        }()

        /// A library that peers preload. It is compiled when a test begins, because it must not come near a product.
        func library(_ name: String, _ source: [UInt8]) throws -> URL {
            let library = folder.appendingPathComponent("\(name).so")
            if FileManager.default.fileExists(atPath: library.path) { return library }
            guard let compiler = Self.compiler else { throw TestKitError("there is no C compiler") }
            let file = folder.appendingPathComponent("\(name).c")
            try Data(source).write(to: file)
            let arguments = ["-O1", "-shared", "-fPIC", "-o", library.path, file.path, "-ldl", "-lpthread"]
            let process = try spawn(program: compiler, arguments: arguments)
            guard try process.waitForExit(within: .seconds(60)) == .status(0) else {
                throw TestKitError("\(compiler.path) does not compile: \(process.errorText)")
            }
            return library
        }
    }
#endif
