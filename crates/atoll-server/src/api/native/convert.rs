//! From the wire to our own types and back.

use super::wire::{Key, KeyQuotas, NewKeyRequest};
use crate::api::ApiError;
use crate::auth::{self, DEFAULT_TENANT, Digest, Scopes};
use crate::clock::Timestamp;
use crate::config::Quotas;
use crate::store::{KeyRecord, NewKey};

impl NewKeyRequest {
    pub(super) fn into_new_key(self, digest: Digest) -> Result<NewKey, ApiError> {
        let tenant = self.tenant.unwrap_or_else(|| DEFAULT_TENANT.to_owned());
        auth::check_key_name(&self.name).map_err(|error| ApiError::invalid(error.to_string()))?;
        auth::check_new_tenant(&tenant).map_err(|error| ApiError::invalid(error.to_string()))?;
        let scopes = match self.scopes {
            Some(scopes) if scopes.is_empty() => return Err(ApiError::invalid("a key needs at least one scope")),
            Some(scopes) => Scopes::of(&scopes),
            None => auth::default_scopes(),
        };
        Ok(NewKey {
            name: self.name,
            tenant,
            scopes,
            quotas: self.quotas.unwrap_or_default().0.try_into()?,
            digest,
        })
    }
}

impl TryFrom<KeyQuotas> for Quotas {
    type Error = ApiError;

    fn try_from(wire: KeyQuotas) -> Result<Self, ApiError> {
        Ok(Self {
            live_sandboxes: wire.live_sandboxes.map(TryInto::try_into).transpose()?,
            creates_per_minute: wire.creates_per_minute.map(TryInto::try_into).transpose()?,
            cpu_seconds_per_day: wire.cpu_seconds_per_day.map(TryInto::try_into).transpose()?,
            bytes_per_day: wire.bytes_per_day.map(TryInto::try_into).transpose()?,
        })
    }
}

impl From<Quotas> for KeyQuotas {
    fn from(quotas: Quotas) -> Self {
        Self {
            live_sandboxes: quotas.live_sandboxes.map(Into::into),
            creates_per_minute: quotas.creates_per_minute.map(Into::into),
            cpu_seconds_per_day: quotas.cpu_seconds_per_day.map(Into::into),
            bytes_per_day: quotas.bytes_per_day.map(Into::into),
        }
    }
}

impl From<KeyRecord> for Key {
    fn from(record: KeyRecord) -> Self {
        let time = |at: Timestamp| at.to_string();
        Self {
            id: record.id.to_string(),
            name: record.name,
            tenant: record.tenant,
            scopes: record.scopes.iter().collect(),
            quotas: record.quotas.into(),
            created: time(record.created),
            revoked: record.revoked.map(time),
            last_used: record.last_used.map(time),
        }
    }
}
