import Foundation
import RoundtableKernel
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The place of a replica or of a store on the command line: the place itself, `@FILE` for the only line of a file, or `@env:NAME` for a
/// variable of the environment. The arguments of a process are visible to all users of the machine, its environment to its own user alone.
package struct GivenPlace: Equatable, Sendable {
    let text: String
    /// Whether the text is an argument of this process.
    let isArgument: Bool

    private static let longest = 65536

    /// Reads the place. A variable is removed from the environment, so that no child inherits it: read it once.
    ///
    /// - throws: `ToolError` when there is no such file or variable, or it has another number of lines.
    init(_ argument: String) throws(ToolError) {
        isArgument = !argument.hasPrefix("@")
        guard !isArgument else {
            text = argument
            return
        }
        // A shell that has replaced `$URL` leaves the place itself after the sign, which is then shown as a place is.
        let shown = Self.redacting(Self.withoutSign(argument), arguments: [argument])
        let source: String
        let content: String
        if let name = argument.wholeMatch(of: /@env:(.*)/)?.1 {
            source = "the variable \(shown)"
            guard let value = ProcessInfo.processInfo.environment[String(name)] else {
                throw ToolError("\(source), which is to have the URL, is not set. Export it, or correct its name.")
            }
            unsetenv(String(name))
            content = value
        } else {
            source = shown
            content = try Self.content(of: String(argument.dropFirst()), shown: shown)
        }
        let lines = content.split(whereSeparator: \.isNewline)
        guard lines.count == 1 else {
            throw ToolError(
                "\(source): has not one line with the URL, but \(lines.count) lines. Put the URL there alone."
            )
        }
        text = String(lines[0])
    }

    /// What follows `@env:` or `@`; the text itself, if it begins with neither.
    private static func withoutSign(_ text: String) -> String {
        for sign in ["@env:", "@"] where text.hasPrefix(sign) { return String(text.dropFirst(sign.count)) }
        return text
    }

    private static func content(of path: String, shown: String) throws(ToolError) -> String {
        guard let file = FileHandle(forReadingAtPath: path) else {
            throw ToolError("\(shown): the file with the URL cannot be read. Check the path and its permissions.")
        }
        defer { try? file.close() }
        if let status = try? System.status(ofDescriptor: file.fileDescriptor, path), status.isRegularFile,
            status.st_mode & 0o077 != 0
        {
            Terminal.complain(
                "\(path): other users may use this file. If the URL has a password: chmod 600 \(path.shellQuoted)"
            )
        }
        guard let bytes = try? file.read(upToCount: longest + 1) ?? Data(), bytes.count <= longest,
            let text = String(validating: bytes, as: UTF8.self)
        else { throw ToolError("\(shown): the file with the URL is no text of up to \(longest) bytes.") }
        return text
    }

    /// Says that the arguments of a program that runs for long may have credentials.
    ///
    /// - Parameters:
    ///   - secrets: the parts of the place that are not shown.
    ///   - option: what the argument is called.
    func warn(of secrets: Secrets, as option: String) {
        guard isArgument, !secrets.isEmpty else { return }
        Terminal.complain(
            "\(option): what may be credentials is in the arguments of this process, which all users of this machine can see while it runs. Give @FILE or @env:NAME instead."
        )
    }
}

extension GivenPlace {
    /// A message about the command line, with only those parts of places that may be shown: such a message may quote any argument.
    package static func redacting(_ message: String, arguments: [String]) -> String {
        let values = arguments.flatMap { argument -> [String] in
            // The value of `--to=URL`.
            [argument]
                + (argument.hasPrefix("-")
                    ? argument.split(separator: "=", maxSplits: 1).dropFirst().map(String.init) : [])
        }.map(withoutSign)
        return values.sorted { $0.utf8.count > $1.utf8.count }.reduce(message) { message, value in
            if value.contains("://") {
                return message.replacing(value, with: (try? ReplicaURL(value))?.shown ?? Secrets.mark)
            }
            guard value.firstMatch(of: /^:?[A-Za-z0-9_-]+,[A-Za-z0-9_-]+[=,:]/) != nil else { return message }
            return message.replacing(value, with: (try? StoreURL(value))?.shown ?? Secrets.mark)
        }
    }
}
