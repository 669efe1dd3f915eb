import HTTPTypes
import Hummingbird

/// Answers requests: the files of the page, and its events.
struct Site: HTTPResponder {
    typealias Context = BasicRequestContext

    let token: Token
    let source: any EventSource

    /// What every answer has. Scripts, styles and connections come from this server alone, and no script can make HTML of text
    /// (<https://developer.mozilla.org/docs/Web/HTTP/Headers/Content-Security-Policy>).
    private static let commonHeaders: HTTPFields = [
        .contentSecurityPolicy: [
            "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src data:",
            "base-uri 'none'",
            "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ].joined(separator: "; "),
        .cacheControl: "no-store",
        .xContentTypeOptions: "nosniff",
        HTTPField.Name("Referrer-Policy")!: "no-referrer",
        HTTPField.Name("Cross-Origin-Resource-Policy")!: "same-origin",
        HTTPField.Name("Cross-Origin-Opener-Policy")!: "same-origin",
    ]

    private static let files: [String: (type: String, bytes: [UInt8])] = [
        "": ("text/html; charset=utf-8", PackageResources.index_html),
        "style.css": ("text/css; charset=utf-8", PackageResources.style_css),
        "main.js": (javaScript, PackageResources.main_js),
        "store.js": (javaScript, PackageResources.store_js),
        "chart.js": (javaScript, PackageResources.chart_js),
        "panels.js": (javaScript, PackageResources.panels_js),
        "parts.js": (javaScript, PackageResources.parts_js),
        "keys.js": (javaScript, PackageResources.keys_js),
    ]
    /// The first one of a request is its `authority`, and no field.
    private static let host = HTTPField.Name("Host")!
    private static let javaScript = "text/javascript; charset=utf-8"

    func respond(to request: Request, context: Context) async throws -> Response {
        // Before anything else: a page of another site whose name leads to this machine sends that name (DNS rebinding).
        // A second name may contradict the first one (RFC 9112, 3.2).
        guard Self.isLocal(request.head.authority), request.headers[values: Self.host].isEmpty else {
            return Self.refuse(.misdirectedRequest, "This address is not served.")
        }
        guard request.method == .get else { return Self.refuse(.methodNotAllowed, "Only GET: nothing can be changed.") }
        let parts = request.uri.path.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, token.matches(parts[0]) else {
            return Self.refuse(
                .notFound,
                "Nothing is here. The address that roundtable-inspector has printed is whole."
            )
        }
        if parts[1] == "events" { return events() }
        guard let file = Self.files[String(parts[1])] else { return Self.refuse(.notFound, "There is no such file.") }
        return Self.response(.ok, type: file.type, ResponseBody(byteBuffer: ByteBuffer(bytes: file.bytes)))
    }

    private func events() -> Response {
        guard let events = source.subscribe() else {
            return Self.refuse(.serviceUnavailable, "Too many pages are open: close one.")
        }
        return Self.response(.ok, type: "text/event-stream", events.body)
    }

    /// Whether a `Host` names this machine by a name that no other site can have.
    static func isLocal(_ authority: String?) -> Bool {
        guard let authority else { return false }
        let parts = authority.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count <= 2, let name = parts.first, parts.dropFirst().allSatisfy({ UInt16($0) != nil }) else {
            return false
        }
        return name == "127.0.0.1" || name.lowercased() == "localhost"
    }

    /// The connection ends with a refusal: a client that asks again and again, without the token, must not keep a place from the page.
    private static func refuse(_ status: HTTPResponse.Status, _ text: String) -> Response {
        let buffer = ByteBuffer(string: text + "\n")
        let body = ResponseBody(contentLength: buffer.readableBytes) { writer in
            try await writer.write(buffer)
            try await writer.finish(nil)
            // The server closes a connection whose answer throws.
            throw Refused()
        }
        var refusal = response(status, type: "text/plain; charset=utf-8", body)
        refusal.headers[.connection] = "close"
        return refusal
    }

    private struct Refused: Error {}

    private static func response(_ status: HTTPResponse.Status, type: String, _ body: ResponseBody) -> Response {
        var headers = commonHeaders
        headers[.contentType] = type
        if let length = body.contentLength { headers[.contentLength] = String(length) }
        return Response(status: status, headers: headers, body: body)
    }
}
