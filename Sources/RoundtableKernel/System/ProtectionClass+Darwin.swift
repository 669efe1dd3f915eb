#if canImport(Darwin)
    import Darwin

    extension System {
        /// The protection class of a file; nil when there is no file or no such class. getattrlist(2) does not open the file.
        static func protectionClass(ofFileAt path: String) -> ProtectionClass? {
            var request = attributes
            // The kernel's answer begins with its own length.
            var answer: (length: UInt32, value: UInt32) = (0, 0)
            do {
                try perform(.stat, path) {
                    getattrlist(path, &request, &answer, MemoryLayout.size(ofValue: answer), UInt32(FSOPT_NOFOLLOW))
                }
            } catch {
                return nil
            }
            return ProtectionClass(rawValue: answer.value)
        }

        /// Sets the protection class of a file. setattrlist(2) does not open the file.
        static func setProtectionClass(_ value: ProtectionClass, ofFileAt path: String) throws {
            var request = attributes
            var number = value.rawValue
            try perform(.chmod, path) {
                setattrlist(path, &request, &number, MemoryLayout.size(ofValue: number), UInt32(FSOPT_NOFOLLOW))
            }
        }

        private static var attributes: attrlist {
            var list = attrlist()
            list.bitmapcount = u_short(ATTR_BIT_MAP_COUNT)
            list.commonattr = attrgroup_t(ATTR_CMN_DATA_PROTECT_FLAGS)
            return list
        }
    }
#endif
