//! A report as one HTML file: the proof as data, and a script that checks it and shows what it proves.
//!
//! A browser runs nothing else and loads nothing. All but the data is the same in every page, so a changed byte anywhere in
//! a file is found: in the page's own parts by comparing, in the data by the signature. Of a page that another version of
//! Atoll wrote only the data is verified.

use super::proof::{BadReport, ProvenReport, ReportProof};
use super::{MAX_PAGE, ReportError, ReportQuery};
use crate::audit::digest::{Digest, from_hex, to_hex};
use crate::audit::index::Index;
use crate::audit::key::{Key, PublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

const PROOF: &str = "<script type=\"application/json\" id=\"proof\">";
const SIGNATURE: &str = "<script type=\"text/plain\" id=\"signature\">";
const END: &str = "</script>";

/// Makes the page. Needs the private key of the log, because the report is signed.
pub fn make_page(index: &Index, query: ReportQuery) -> Result<String, ReportError> {
    let key = Key::existing(index.dir())?;
    let proof = ReportProof::collect(index, query, &PublicKey::of(&key))?;
    // In JSON this letter is in strings only. Without it nothing ends the element or begins another one.
    let data = serde_json::to_string(&proof)?.replace('<', "\\u003c");
    let signature = key.sign_report(Digest::of(data.as_bytes()));
    let page = render(&data, &to_hex(&signature));
    check_page(page.as_bytes(), &PublicKey::of(&key)).map_err(ReportError::Chain)?;
    if page.len() > MAX_PAGE {
        return Err(ReportError::TooLarge);
    }
    Ok(page)
}

/// Checks a file, which may be anything, with the public key only.
pub fn check_page(bytes: &[u8], key: &PublicKey) -> Result<ProvenReport, BadReport> {
    let text = std::str::from_utf8(bytes).map_err(|_| BadReport::NotAReport)?;
    let data = element(text, PROOF).ok_or(BadReport::NotAReport)?;
    let signature = element(text, SIGNATURE).ok_or(BadReport::NotAReport)?;
    let proof: ReportProof = serde_json::from_str(data).map_err(|_| BadReport::NotAReport)?;
    if proof.key != key.bytes() {
        return Err(BadReport::Key);
    }
    if !key.has_signed_report(Digest::of(data.as_bytes()), from_hex(signature)) {
        return Err(BadReport::Signature);
    }
    // The signature covers the version. The page of another one has other parts, which are not known here.
    let is_own = proof.atoll == env!("CARGO_PKG_VERSION");
    if is_own && render(data, signature) != text {
        return Err(BadReport::Page);
    }
    let report = proof.check(key)?;
    Ok(ProvenReport {
        other_version: (!is_own).then_some(proof.atoll),
        ..report
    })
}

/// The text of an element, up to the first end.
fn element<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(END).map(|(inside, _)| inside)
}

fn render(data: &str, signature: &str) -> String {
    let (script, style) = (hash(SCRIPT), hash(STYLE));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-{script}'; \
         style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Atoll audit report</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>Atoll audit report</h1>\n\
         <p id=\"verdict\" role=\"status\">Not verified: this page needs JavaScript. \
         Use <code>atoll audit verify-report</code>.</p>\n\
         <p id=\"key\"></p>\n<p id=\"question\"></p>\n<table>\n<thead>\n<tr><th>Entry<th>Caller<th>What ran<th>Allowed by\
         <th>Isolation<th>What left<th>Outcome</tr>\n</thead>\n<tbody id=\"entries\"></tbody>\n</table>\n\
         <p id=\"denials\"></p>\n\
         {PROOF}{data}{END}\n{SIGNATURE}{signature}{END}\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// As a Content Security Policy names a script or a style.
fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}
