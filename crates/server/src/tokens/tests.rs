use super::*;

const ALICE: &str = "tg_0000000000000000000000000000000000000000000000000000000000000001";
const BOB: &str = "tg_0000000000000000000000000000000000000000000000000000000000000002";

fn line(name: &str, role: Role, secret: &str) -> String {
    NamedToken::new(name, role, secret).unwrap().to_string()
}

fn problems(text: &str) -> Vec<String> {
    Tokens::parse("tokens", text).unwrap_err().problems().collect()
}

fn found(tokens: &Tokens, sent: &str) -> Option<String> {
    tokens.find(sent.as_bytes()).map(|token| format!("{} {}", token.name(), token.role()))
}

#[test]
fn a_token_is_found_by_its_hash() {
    let (alice, bob) = (line("alice", Role::Write, ALICE), line("bob@ci", Role::Read, BOB));
    let text = format!("# who may\n\n  {alice}\r\n\t# {bob}\n{}\n", bob.replace(' ', " \t "));
    let tokens = Tokens::parse("tokens", &text).unwrap();
    assert_eq!(tokens.len(), 2);
    assert_eq!(found(&tokens, ALICE).as_deref(), Some("alice write"));
    assert_eq!(found(&tokens, BOB).as_deref(), Some("bob@ci read"));
    for wrong in ["", "alice", &ALICE[1..], &format!("{ALICE}0"), &ALICE.to_uppercase(), &alice] {
        assert_eq!(found(&tokens, wrong), None, "{wrong}");
    }
}

#[test]
fn the_hash_is_sha_256() {
    let secret = "0123456789abcdef0123456789abcdef";
    let known = "sha256:3eb1bd439947eb762998e566ccc2e099c791118b2f40579cc4f7da2b5061b7f9";
    let token = NamedToken::new("a", Role::Read, secret).unwrap();
    assert_eq!(token.to_string(), format!("a read {known}"));
    let upper = format!("a read sha256:{}", known[7..].to_uppercase());
    assert!(upper.parse::<NamedToken>() == Ok(token));
}

/// The hashes of such tokens may be in a file; nobody gets in by trying them.
#[test]
fn a_token_that_could_be_guessed_is_none() {
    let empty = "a write sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(found(&Tokens::parse("tokens", empty).unwrap(), ""), None);
    for secret in ["", "s3cret", &"x".repeat(31), &"x".repeat(513), &" ".repeat(40), &"\u{e9}".repeat(20)] {
        assert!(NamedToken::new("a", Role::Read, secret).is_err(), "{secret}");
    }
    assert!(NamedToken::new("a", Role::Read, &NamedToken::secret([0xab; 32])).is_ok());
}

#[test]
fn every_mistake_is_told_with_its_line_and_without_the_line() {
    let good = line("alice", Role::Write, ALICE);
    let hash = good.rsplit(' ').next().unwrap();
    for (entry, said) in [
        ("alice", "a line is `NAME ROLE sha256:HEX`"),
        (&format!("alice write {hash} # mine"), "a line is `NAME ROLE sha256:HEX`"),
        (&format!("alice admin {hash}"), "neither `read` nor `write`"),
        (&format!("alice {ALICE} {hash}"), "neither `read` nor `write`"),
        (&format!("alice Write {hash}"), "neither `read` nor `write`"),
        (&format!("alice write {ALICE}"), "the hash is not `sha256:` and 64"),
        (&format!("alice write {}", &hash[7..]), "the hash is not `sha256:` and 64"),
        (&format!("alice write {}", &hash[..70]), "the hash is not `sha256:` and 64"),
        (&format!("alice write {hash}0"), "the hash is not `sha256:` and 64"),
        (&format!("alice write sha256:+{}", &hash[8..]), "the hash is not `sha256:` and 64"),
        (&format!("{} write {hash}", "a".repeat(65)), "the name is not 1 to 64"),
        (&format!("al\u{ef}ce write {hash}"), "the name is not 1 to 64"),
        (&format!("{{alice}} write {hash}"), "the name is not 1 to 64"),
        (&format!("tg_0001 write {hash}"), "the name looks like a token"),
        (&format!("local write {hash}"), "callers without a name"),
        (&format!("token write {hash}"), "callers without a name"),
    ] {
        let all = problems(&format!("# first\n{entry}\n"));
        assert!(
            all.len() == 1 && all[0].starts_with("tokens:2: ") && all[0].contains(said),
            "{entry}: {all:?}"
        );
        assert!(!all[0].contains(ALICE) && !all[0].contains(&hash[7..70]), "{all:?}");
    }
}

#[test]
fn nothing_is_loaded_in_part() {
    let (alice, bob) = (line("alice", Role::Write, ALICE), line("bob", Role::Read, BOB));
    let again = bob.replace("bob", "alice");
    let same = alice.replace("alice", "carol");
    let all = problems(&format!("{alice}\nnonsense\n{again}\n{same}\n{bob}\n"));
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all[0].starts_with("tokens:2: a line is"), "{all:?}");
    assert!(all[1].starts_with("tokens:3: `alice` is in line 1 already"), "{all:?}");
    assert!(all[2].starts_with("tokens:4: `carol` has the token of line 1"), "{all:?}");
    for nothing in ["", "\n\n", "# nobody\n"] {
        assert!(problems(nothing)[0].contains("there is no token"));
    }
}

#[test]
fn there_are_limits() {
    let many = |count: u64| -> String {
        (0..count).map(|number| format!("n{number} read sha256:{number:064x}\n")).collect()
    };
    assert_eq!(Tokens::parse("tokens", &many(1_000)).unwrap().len(), 1_000);
    assert!(problems(&many(1_001))[0].starts_with("tokens:1001: there are more than 1000"));
    assert!(problems(&"#\n".repeat(300_000))[0].contains("more than 512 KiB"));
    assert_eq!(problems(&"x\n".repeat(100)).last().unwrap(), "80 more problems");
}

#[test]
fn inline_commas_do_for_line_ends() {
    let (alice, bob) = (line("alice", Role::Write, ALICE), line("bob", Role::Read, BOB));
    let read = |text: String| Tokens::read(&AdminTokens::Inline(text));
    for text in [format!("{alice},{bob}"), format!(" {alice} , {bob},"), format!("{alice}\n# a\n{bob}")] {
        assert_eq!(read(text.clone()).unwrap().len(), 2, "{text}");
    }
    assert_eq!(read(format!("{alice}\n# no more, {bob}")).unwrap().len(), 1);
    let all = read(format!("{alice}, # {bob}")).unwrap_err().to_string();
    assert!(all.contains("inline tokens:1: a line is"), "{all}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let said = Tokens::read(&AdminTokens::File("/nowhere/tokens".into())).unwrap_err().to_string();
    assert!(said.contains("/nowhere/tokens: it cannot be read"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    std::fs::write(&path, b"\xff\xfe").unwrap();
    let said = Tokens::read(&AdminTokens::File(path)).unwrap_err().to_string();
    assert!(said.contains("it is not UTF-8"), "{said}");
}
